import { decodeAbiParameters, getAddress } from 'viem'
import { type Domain, domainSeparator, MULTICALL, SEPARATOR_CALL, stateCall } from './payload.ts'
import { codeProblem } from './gas.ts'
import { type Answer, hasCode, type Rpc, trouble } from './rpc.ts'
import { flagIn, type Hex, isHex, isQuantity, lower } from './hex.ts'

/** `problems` and `warnings` begin with the name of the setting that they are about, and hold no secret. */
export type Checked =
  | {
      readonly kind: 'ready'
      readonly warnings: readonly string[]
      readonly multicall: boolean
      readonly sync: boolean
    }
  /** The configuration does not fit the chain: nothing may be sold with it. */
  | { readonly kind: 'wrong'; readonly problems: readonly string[] }
  /** The node cannot be asked; try again. */
  | { readonly kind: 'unavailable'; readonly reason: string }

export type CheckConfig = {
  readonly network: string
  readonly chainId: number
  readonly asset: string
  readonly payTo: string
  readonly domain: Domain
  /** Absent where others settle: nothing about gas is looked at then. */
  readonly relayer?: Hex
  /** Below this balance in wei the relayer is said to be running dry; 0.0005 ether unless told. */
  readonly lowGas?: bigint
  /** False where the relayer's account is looked at elsewhere. */
  readonly looksAtRelayer?: boolean
}

const ZERO: Hex = `0x${'0'.repeat(40)}`

/** Reads everything that a misconfigured gateway would find out only by losing money. One HTTP request. */
export async function checkEvm(rpc: Rpc, config: CheckConfig): Promise<Checked> {
  const addresses = [...addressProblem('asset', config.asset), ...addressProblem('pay_to', config.payTo)]
  if (addresses.length > 0) return { kind: 'wrong', problems: addresses }
  const asset = lower(config.asset)
  const { relayer } = config
  const call = (data: Hex) => rpc.ask('eth_call', [{ to: asset, data }, 'latest'])
  const watched = config.looksAtRelayer === false ? undefined : relayer
  const [chain, code, name, version, separator, state, gas, block, multicall, sync, own] = await Promise.all([
    rpc.ask('eth_chainId', []),
    rpc.ask('eth_getCode', [asset, 'latest']),
    call('0x06fdde03'), // name()
    call('0x54fd4d50'), // version()
    call(SEPARATOR_CALL),
    call(stateCall(relayer ?? ZERO, `0x${'0'.repeat(64)}`)),
    rpc.ask('eth_getBalance', [relayer ?? ZERO, 'latest']),
    rpc.ask('eth_getBlockByNumber', ['latest', false]),
    rpc.ask('eth_getCode', [MULTICALL, 'latest']),
    relayer ? rpc.ask('eth_sendRawTransactionSync', ['0x']) : trouble('nothing is sent'),
    watched ? rpc.ask('eth_getCode', [watched, 'latest']) : trouble('nobody is looked at'),
  ])
  const away = [chain, code, name, version, separator, state, gas, block, multicall].find(
    (answer) => answer.kind === 'trouble',
  )
  if (away?.kind === 'trouble') return { kind: 'unavailable', reason: away.reason }
  const [id, balance] = [quantityIn(chain), quantityIn(gas)]
  const baseFee =
    block.kind === 'result' ? (block.value as { baseFeePerGas?: unknown } | null)?.baseFeePerGas : undefined
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
    return { kind: 'wrong', problems: [`network: it is ${config.network}, but the node serves eip155:${id}`] }
  }
  if (hexIn(code) === '0x')
    return { kind: 'wrong', problems: [`asset: ${config.asset} has no code on ${config.network}`] }

  const problems = [
    ...domainProblems(config, asset, { name: textIn(name), version: textIn(version), separator: hexIn(separator) }),
    ...(flagIn({ ok: true, data: hexIn(state) ?? '0x' }) === undefined
      ? [`asset: ${config.asset} has no authorizationState (EIP-3009)`]
      : []),
    ...(lower(config.payTo) === asset ? ['pay_to: it is the asset itself'] : []),
    ...(watched && balance === 0n ? [`relayer_key: its account ${watched} has nothing to pay gas with`] : []),
    ...(watched
      ? [codeProblem(watched, hasCode(own))].flatMap((problem) => (problem ? [`relayer_key: ${problem}`] : []))
      : []),
    ...(!relayer || isQuantity(baseFee) ? [] : ['network: its blocks have no base fee (EIP-1559)']),
  ]
  if (problems.length > 0) return { kind: 'wrong', problems }
  const hasMulticall = (hexIn(multicall) ?? '0x') !== '0x'
  const warnings = [
    ...(watched && balance < (config.lowGas ?? 500_000_000_000_000n)
      ? [`relayer_key: its account ${watched} is running out of gas`]
      : []),
    ...(!relayer || hasMulticall ? [] : [`network: no Multicall3 at ${MULTICALL}, so payments settle one by one`]),
  ]
  const hasSync = sync.kind === 'error' && (sync.code === -32602 || /rlp|empty|decod/i.test(sync.message))
  return { kind: 'ready', warnings, multicall: hasMulticall, sync: hasSync }
}

/** What is wrong with a configured address, as far as its letters tell. */
export function addressProblem(setting: string, address: string): readonly string[] {
  if (!/^0x[0-9a-fA-F]{40}$/.test(address))
    return [`${setting}: ${JSON.stringify(address.slice(0, 60))} is not an address`]
  if (address === ZERO) return [`${setting}: it is the zero address`]
  const isMixed = /[a-f]/.test(address.slice(2)) && /[A-F]/.test(address.slice(2))
  if (isMixed && getAddress(address) !== address)
    return [`${setting}: the capitals of ${address} do not match its checksum; a digit may be wrong`]
  return []
}

type Token = {
  readonly name: string | undefined
  readonly version: string | undefined
  readonly separator: Hex | undefined
}

/** The separator decides where the token tells it; name and version then only explain. A wrong name fails every payment (decision 67). */
function domainProblems(config: CheckConfig, asset: Hex, token: Token): readonly string[] {
  const { name, version } = config.domain
  const hasSeparator = token.separator?.length === 66
  if (hasSeparator && token.separator === domainSeparator(config.domain, config.chainId, asset)) return []
  const differs = (setting: string, ours: string, its: string | undefined) =>
    its === undefined || its === ours
      ? []
      : [`${setting}: it is ${JSON.stringify(ours)}, the token says ${JSON.stringify(its)}`]
  const problems = [...differs('domain.name', name, token.name), ...differs('domain.version', version, token.version)]
  if (problems.length > 0) return problems
  if (hasSeparator) return ['domain: name, version, chain and address do not give the DOMAIN_SEPARATOR of the token']
  if (token.name !== undefined && token.version !== undefined) return []
  return [`asset: ${config.asset} tells neither its DOMAIN_SEPARATOR nor its name and version`]
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
