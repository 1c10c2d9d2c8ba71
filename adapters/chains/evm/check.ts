import { BATCH_SETTLEMENT } from './node/x402_contracts.ts'
import { decodeAbiParameters } from 'viem'
import { addressProblem, ZERO_ADDRESS } from './node/address.ts'
import { type Domain, domainSeparator } from './exact/eip3009.ts'
import { type CheckResult, confirmedCheck } from '../lib/results.ts'
import { MULTICALL } from './node/multicall.ts'
import { SEPARATOR_CALL, stateCall } from './node/token.ts'
import { codeProblem } from './node/gas.ts'
import { isRevert } from './node/reads.ts'
import { type Answer, hasCode, type Rpc, failure } from '../lib/json_rpc.ts'
import { PERMIT2, UPTO_PROXY } from './upto/payload.ts'
import { flagIn, type Hex, isHex, isQuantity, lower } from '../lib/hex.ts'

/** Whether Multicall3 exists, and whether the node holds a send open until the receipt exists (EIP-7966). */
type EvmCheckResult = CheckResult<{ readonly multicall: boolean; readonly sync: boolean }>

export type CheckConfig = {
  readonly network: string
  readonly chainId: number
  readonly asset: string
  readonly payTo: string
  readonly domain: Domain
  /** Absent when others settle; gas is then not checked. */
  readonly relayer?: Hex
  /** Whether it sells by `upto`, whose contracts must then exist. */
  readonly usesPermit2?: boolean
  /** Whether it sells by `batch-settlement`, whose contracts must then exist. */
  readonly usesChannels?: boolean
  /** Warns below this relayer balance in wei. Default 0.0005 ether. */
  readonly lowGas?: bigint
  /** False when the relayer's account is checked elsewhere. */
  readonly checksRelayer?: boolean
}

/**
 * Reads everything that a misconfigured gateway would otherwise find out by losing money. One HTTP request, or
 * two if something is wrong.
 */
export async function checkEvm(rpc: Rpc, config: CheckConfig): Promise<EvmCheckResult> {
  const addresses = [...addressProblem('asset', config.asset), ...addressProblem('pay_to', config.payTo)]
  if (addresses.length > 0) return { kind: 'wrong', problems: addresses }
  return await confirmedCheck(() => checkOnce(rpc, config))
}

/** Everything that a check asks the node, in one HTTP request. */
async function readsOf(rpc: Rpc, config: CheckConfig) {
  const asset = lower(config.asset)
  const { relayer } = config
  const checkedRelayer = checkedRelayerOf(config)
  const call = (data: Hex) => rpc.request('eth_call', [{ to: asset, data }, 'latest'])
  const codeAt = (address: Hex, isUsed: unknown) =>
    isUsed ? rpc.request('eth_getCode', [address, 'latest']) : failure('not used')
  const [
    chain,
    code,
    name,
    version,
    separator,
    state,
    gas,
    block,
    multicall,
    sync,
    relayerCode,
    permit2,
    proxy,
    escrow,
  ] = await Promise.all([
    rpc.request('eth_chainId', []),
    rpc.request('eth_getCode', [asset, 'latest']),
    call('0x06fdde03'), // name()
    call('0x54fd4d50'), // version()
    call(SEPARATOR_CALL),
    call(stateCall(relayer ?? ZERO_ADDRESS, `0x${'0'.repeat(64)}`)),
    rpc.request('eth_getBalance', [relayer ?? ZERO_ADDRESS, 'latest']),
    rpc.request('eth_getBlockByNumber', ['latest', false]),
    rpc.request('eth_getCode', [MULTICALL, 'latest']),
    relayer ? rpc.request('eth_sendRawTransactionSync', ['0x']) : failure('nothing to send'),
    checkedRelayer ? rpc.request('eth_getCode', [checkedRelayer, 'latest']) : failure('nothing to check'),
    codeAt(PERMIT2, config.usesPermit2),
    codeAt(UPTO_PROXY, config.usesPermit2),
    codeAt(BATCH_SETTLEMENT, config.usesChannels),
  ])
  return {
    chain,
    code,
    name,
    version,
    separator,
    state,
    gas,
    block,
    multicall,
    sync,
    relayerCode,
    permit2,
    proxy,
    escrow,
  }
}

type Reads = Awaited<ReturnType<typeof readsOf>>

/** The relayer whose account is checked here. */
const checkedRelayerOf = ({ checksRelayer, relayer }: CheckConfig): Hex | undefined =>
  checksRelayer === false ? undefined : relayer

async function checkOnce(rpc: Rpc, config: CheckConfig): Promise<EvmCheckResult> {
  const reads = await readsOf(rpc, config)
  const { chain, code, name, version, separator, state, gas, block, multicall } = reads
  const failed = [chain, code, name, version, separator, state, gas, block, multicall].find(
    (answer) => answer.kind === 'failure',
  )
  if (failed?.kind === 'failure') return { kind: 'unavailable', reason: failed.reason }
  const [id, balance] = [quantityIn(chain), quantityIn(gas)]
  if (
    id === undefined ||
    balance === undefined ||
    hexIn(code) === undefined ||
    block.kind !== 'result' ||
    block.value === null
  ) {
    return { kind: 'unavailable', reason: 'the node does not answer like an Ethereum node' }
  }
  if (id !== BigInt(config.chainId)) {
    return {
      kind: 'wrong',
      problems: [`network: the configured network is ${config.network}, but the node serves eip155:${id}`],
    }
  }
  if (hexIn(code) === '0x')
    return { kind: 'wrong', problems: [`asset: ${config.asset} has no code on ${config.network}`] }

  const problems = problemsIn(reads, { config, balance })
  if (problems.length > 0) {
    const reason = await unanswered(rpc, [name, version, separator, state])
    return reason === undefined ? { kind: 'wrong', problems } : { kind: 'unavailable', reason }
  }
  return readyOf(reads, { config, balance })
}

type Checked = { readonly config: CheckConfig; readonly balance: bigint }

/** Problems of the token, the contracts and the relayer, once the node is on the right network. */
function problemsIn(reads: Reads, { config, balance }: Checked): readonly string[] {
  const { name, version, separator, state, block, permit2, proxy, escrow } = reads
  const asset = lower(config.asset)
  const checkedRelayer = checkedRelayerOf(config)
  const baseFee =
    block.kind === 'result' ? (block.value as { baseFeePerGas?: unknown } | null)?.baseFeePerGas : undefined
  return [
    ...domainProblems(config, asset, { name: textIn(name), version: textIn(version), separator: hexIn(separator) }),
    ...(flagIn({ ok: true, data: hexIn(state) ?? '0x' }) === undefined
      ? [`asset: ${config.asset} has no authorizationState (EIP-3009)`]
      : []),
    ...(config.usesPermit2 && (hasCode(permit2) === false || hasCode(proxy) === false)
      ? [`schemes: "upto" needs Permit2 at ${PERMIT2} and its proxy at ${UPTO_PROXY}, which ${config.network} lacks`]
      : []),
    ...(config.usesChannels && hasCode(escrow) === false
      ? [`schemes: "batch-settlement" needs its contract at ${BATCH_SETTLEMENT}, which ${config.network} lacks`]
      : []),
    ...(lower(config.payTo) === asset ? ['pay_to: must not be the asset itself'] : []),
    ...(checkedRelayer && balance === 0n
      ? [`relayer_key: account ${checkedRelayer} has no balance to pay gas; top it up`]
      : []),
    ...(checkedRelayer
      ? [codeProblem(checkedRelayer, hasCode(reads.relayerCode))].flatMap((problem) =>
          problem ? [`relayer_key: ${problem}`] : [],
        )
      : []),
    ...(!config.relayer || isQuantity(baseFee) ? [] : ['network: its blocks have no base fee; EIP-1559 is required']),
  ]
}

function readyOf({ multicall, sync }: Reads, { config, balance }: Checked): EvmCheckResult {
  const checkedRelayer = checkedRelayerOf(config)
  const hasMulticall = (hexIn(multicall) ?? '0x') !== '0x'
  const warnings = [
    ...(checkedRelayer && balance < (config.lowGas ?? 500_000_000_000_000n)
      ? [`relayer_key: account ${checkedRelayer} is running out of gas`]
      : []),
    ...(!config.relayer || hasMulticall
      ? []
      : [`network: there is no Multicall3 at ${MULTICALL}, so payments settle one by one`]),
  ]
  const hasSync = sync.kind === 'error' && (sync.code === -32602 || /rlp|empty|decod/i.test(sync.message))
  return { kind: 'ready', warnings, multicall: hasMulticall, sync: hasSync }
}

/** The identity precompile returns what it is given, on every chain. */
const ECHO = { to: `0x${'0'.repeat(39)}4`, data: `0x${'2a'.repeat(32)}` }

/** Why these calls say nothing about the token: the node cannot run them. Undefined where they do. */
async function unanswered(rpc: Rpc, calls: readonly Answer[]): Promise<string | undefined> {
  for (const call of calls)
    if (call.kind === 'error' && !isRevert(call)) return `eth_call: the node answers ${call.code} ${call.message}`
  if (!calls.every((call) => hexIn(call) === '0x')) return undefined
  const echo = await rpc.request('eth_call', [ECHO, 'latest'])
  return hexIn(echo) === ECHO.data ? undefined : 'eth_call: the node answers every call with nothing'
}

type Token = {
  readonly name: string | undefined
  readonly version: string | undefined
  readonly separator: Hex | undefined
}

/**
 * Compares the domain separator if the token reports one; name and version then only explain. A wrong name fails every
 * payment (decision 67).
 */
function domainProblems(config: CheckConfig, asset: Hex, token: Token): readonly string[] {
  const { name, version } = config.domain
  const hasSeparator = token.separator?.length === 66
  if (hasSeparator && token.separator === domainSeparator(config.domain, config.chainId, asset)) return []
  const mismatch = (setting: string, ours: string, tokens: string | undefined) =>
    tokens === undefined || tokens === ours
      ? []
      : [`${setting}: the configured value is ${JSON.stringify(ours)}, the token's is ${JSON.stringify(tokens)}`]
  const problems = [...mismatch('domain.name', name, token.name), ...mismatch('domain.version', version, token.version)]
  if (problems.length > 0) return problems
  if (hasSeparator) return ["domain: name, version, chain and address do not produce the token's DOMAIN_SEPARATOR"]
  if (token.name !== undefined && token.version !== undefined) return []
  return [`asset: ${config.asset} reports neither DOMAIN_SEPARATOR() nor name() and version()`]
}

function hexIn(answer: Answer): Hex | undefined {
  return answer.kind === 'result' && isHex(answer.value) ? lower(answer.value) : undefined
}

function quantityIn(answer: Answer): bigint | undefined {
  return answer.kind === 'result' && isQuantity(answer.value) ? BigInt(answer.value) : undefined
}

function textIn(answer: Answer): string | undefined {
  const data = hexIn(answer)
  if (!data || data.length < 130) return undefined
  try {
    return decodeAbiParameters([{ type: 'string' }], data)[0].slice(0, 100)
  } catch {
    return undefined
  }
}
