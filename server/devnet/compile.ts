/** Compiles the contracts of devnet and of tests to JSON beside their sources: `bun server/devnet/compile.ts`. */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import solc from 'solc'

/** `runtime` is code to place at an address, `creation` is code to deploy with constructor arguments. */
type Artifact = {
  readonly source: string
  readonly sourceHash: string
  readonly abi: readonly unknown[]
  readonly runtime?: string
  readonly creation?: string
}

const ROOT = new URL('../../', import.meta.url)

/** Artifact file -> contract -> its source and the kind of code. Paths are relative to the repository. */
const OUTPUTS = {
  'server/devnet/contracts.json': {
    TestUsdc: { source: 'server/devnet/contracts/test_usdc.sol', code: 'runtime' },
    Multicall: { source: 'server/devnet/contracts/multicall.sol', code: 'runtime' },
    Permit2: { source: 'server/devnet/contracts/permit2.sol', code: 'runtime' },
    UptoPermit2Proxy: { source: 'server/devnet/contracts/upto_proxy.sol', code: 'runtime' },
    BatchSettlement: { source: 'server/devnet/contracts/batch_settlement.sol', code: 'runtime' },
    ERC3009DepositCollector: { source: 'server/devnet/contracts/deposit_collectors.sol', code: 'runtime' },
    Permit2DepositCollector: { source: 'server/devnet/contracts/deposit_collectors.sol', code: 'runtime' },
  },
  'test/adapters/chains/evm/contract_wallet.json': {
    ContractWallet: { source: 'test/adapters/chains/evm/contract_wallet.sol', code: 'creation' },
  },
  'test/adapters/chains/evm/moody_wallet.json': {
    MoodyWallet: { source: 'test/adapters/chains/evm/moody_wallet.sol', code: 'creation' },
  },
} as const

/** Sources that others import, and that have no code of their own. */
const IMPORTED = ['server/devnet/contracts/signer.sol']

/** Pinned, because a test checks that equal sources compile to equal bytes. */
const SETTINGS = {
  optimizer: { enabled: true, runs: 10_000 },
  evmVersion: 'cancun',
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } },
}

type CompiledContract = { abi: unknown[]; evm: { bytecode: { object: string }; deployedBytecode: { object: string } } }
type CompilerOutput = {
  errors?: { formattedMessage: string }[]
  contracts?: Record<string, Record<string, CompiledContract>>
}

/** Artifact file -> its expected text. Throws on any compiler error or warning. */
export function compileContracts(): Map<string, string> {
  const entries = Object.values(OUTPUTS).flatMap((contracts) => Object.values(contracts))
  const paths = [...entries.map(({ source }) => source), ...IMPORTED]
  const sources = Object.fromEntries(paths.map((path) => [path, { content: read(path) }]))
  const output = JSON.parse(
    solc.compile(JSON.stringify({ language: 'Solidity', sources, settings: SETTINGS })),
  ) as CompilerOutput
  if (output.errors?.length) throw new Error(output.errors.map((error) => error.formattedMessage).join('\n'))

  const files = new Map<string, string>()
  for (const [file, contracts] of Object.entries(OUTPUTS)) {
    const artifacts: Record<string, Artifact> = {}
    for (const [name, { source, code }] of Object.entries(contracts)) {
      const compiled = output.contracts?.[source]?.[name]
      if (!compiled) throw new Error(`${source} has no contract ${name}`)
      const object = code === 'runtime' ? compiled.evm.deployedBytecode.object : compiled.evm.bytecode.object
      artifacts[name] = { source, sourceHash: sha256(read(source)), abi: compiled.abi, [code]: `0x${object}` }
    }
    files.set(file, `${JSON.stringify({ compiler: solc.version(), ...artifacts }, null, 1)}\n`)
  }
  return files
}

/** The text of an artifact file on disk. */
export function readArtifact(file: string): string {
  return read(file)
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

if (import.meta.main) {
  for (const [file, text] of compileContracts()) {
    writeFileSync(new URL(file, ROOT), text)
    console.log(`${file}: ${text.length} bytes`)
  }
}
