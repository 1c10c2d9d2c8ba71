import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { usdc } from '../../../core/x402/money.ts'
import type { Chain, Fate, Refused, Settlement, Unavailable, Verdict } from '../../../core/ports/mod.ts'
import type { Terms } from '../../../core/x402/offer.ts'
import type { Offer, Payment } from '../../../core/x402/protocol.ts'
import { type CheckConfig, type Checked, checkEvm } from './check.ts'
import { chainIdOf, evmIdentity, isMagic, type Read, refusedSignature, unavailable } from './identity.ts'
import { CONTRACT_LIMITS, type Returned } from './contracts.ts'
import {
  balanceCall,
  type Domain,
  SEPARATOR_CALL,
  signatureCall,
  signerOf,
  stateCall,
  type Target,
  transferCall,
} from './payload.ts'
import { evmReads, type ReadsConfig } from './reads.ts'
import { type GasFloor, type GasState, type GasWatch, gasWatch, type KeyReading, lookAtKey } from './gas.ts'
import { evmRelayer, type Relayer, type RelayerConfig } from './relayer.ts'
import { evmRpc, hasCode, type RpcConfig, type Trouble } from './rpc.ts'
import { evmSettler, type SettleConfig, TRANSFER_GAS } from './settle.ts'
import { judgeExact, refused } from '../exact.ts'
import { flagIn, type Hex, lower, uintIn } from './hex.ts'

/** One gateway row on an EVM chain. What is optional has a default that suits a public node of an L2. */
export type EvmConfig = {
  /** CAIP-2, for example `eip155:8453`. */
  readonly network: string
  readonly rpcUrl: string
  /** A token with EIP-3009: USDC. */
  readonly asset: string
  readonly payTo: string
  /** EIP-712 domain of the asset; differs per deployment, so `check` compares it with the token. */
  readonly domain: Domain
  /** Pays the gas. One process per key: two would fight over nonces. */
  readonly relayerKey: string
} & Omit<RpcConfig, 'url'> &
  Omit<RelayerConfig, 'chainId'> &
  ReadsConfig &
  Omit<SettleConfig, 'relayer'> &
  Pick<CheckConfig, 'lowGas'> & {
    /** Below this it sells no more, until it is topped up. */
    readonly gasFloor?: GasFloor
    /** False for one that only reads: it neither judges the account of its key, nor closes with it. */
    readonly watchesGas?: boolean
  }

export type EvmChain = Chain &
  Required<Pick<Chain, 'balance'>> & {
    /** Compares the configuration with the chain; the terms open when it is ready, and stay open. Moves nothing. */
    check(at?: { now: number }): Promise<Checked>
    /** Looks after the gas of the relayer; to be called every few seconds. Never rejects. */
    refresh(at: { now: number }): Promise<void>
    /** What its account holds for gas, and whether that is too little to sell. */
    gas(): GasState
    /** Looks at the account of another key: could it serve, and else why not? */
    look(relayerKey: string, now: number): Promise<KeyReading>
    /** Whether no settlement is under way. */
    isIdle(): boolean
    /** Stops what is under way in the background; whoever waits reads unknown. */
    close(): void
  }

type Found = { readonly asset: Hex; readonly time: number; readonly isContract: boolean }

/** USDC on one EVM chain, verified and settled by ourselves. Throws, without quoting them, when the URL, the key or the network is malformed. */
export function evmChain(config: EvmConfig): EvmChain {
  const chainId = chainIdOf(config.network)
  const account = accountOf(config.relayerKey)
  const rpc = evmRpc({ ...config, url: config.rpcUrl })
  const reads = evmReads(rpc, config)
  const watchesGas = config.watchesGas ?? true
  const transferGas = config.gas?.transfer ?? TRANSFER_GAS
  const gas: GasWatch = gasWatch(
    { rpc, feeAt: (now) => relayer.feeAt(now) },
    { address: account.address, transferGas, floor: config.gasFloor },
  )
  const relayer: Relayer = evmRelayer(rpc, account, { ...config, chainId, gasWatch: gas })
  const identity = evmIdentity({ rpc, reads }, { network: config.network, lagSeconds: lagSeconds(config) })
  const settler = evmSettler({ rpc, reads, relayer, gasWatch: gas }, { ...config, relayer: account.address })
  const { network, asset, payTo, domain } = config
  const offered: readonly Terms[] = [
    { scheme: 'exact', network, asset, payTo, extra: { name: domain.name, version: domain.version } },
  ]
  let terms: readonly Terms[] = []

  async function verify(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Verdict> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return given
    const { exact } = given
    const bad = judgeExact(exact, offer, at.now, config.lookbackSeconds)
    if (bad) return bad
    const asset = lower(offer.asset)
    const hadCode = identity.hadCode(exact.from)
    const transfer = { to: asset, data: transferCall(exact) }
    const calls = [
      { to: asset, data: balanceCall(exact.from) },
      { to: asset, data: stateCall(exact.from, exact.nonce) },
      ...(hadCode ? [] : [transfer]), // last: the payer's own code cannot touch the answers before it
    ]
    // Whether the payer has code is often known only with these answers: the token might run it already, so the gas is bounded.
    const bounds = { gas: CONTRACT_LIMITS.gas, from: account.address }
    const byItself = hadCode ? askPayer(given, transfer, at.signal) : undefined
    const [code, seen] = await Promise.all([
      rpc.ask('eth_getCode', [exact.from, 'latest'], at.signal),
      reads.view(calls, { lagSeconds: lagSeconds(config), signal: at.signal, ...bounds }),
    ])
    const isContract = hasCode(code)
    if (isContract === undefined) return unavailable(`the code of ${exact.from} cannot be read`)
    if (seen.kind === 'trouble') return unavailable(seen.reason)
    if (isContract) identity.foundCode(exact.from)
    const said = byItself || isContract ? await (byItself ?? askPayer(given, transfer, at.signal)) : undefined
    if (said && 'kind' in said) return unavailable(said.reason)
    const [balanceOf, state] = seen.results
    const moved = said ? said.moved : seen.results[2]
    if (isContract && !isMagic(said?.recognized)) {
      return refused(
        'PAYMENT_INVALID',
        'signature',
        `the account ${exact.from} has code, and does not recognize the signature (ERC-1271)`,
      )
    }
    const balance = uintIn(balanceOf)
    if (moved?.ok && balance !== undefined)
      return {
        kind: 'valid',
        balance: usdc(balance),
        asOf: at.now,
        ...(seen.block !== undefined && { block: seen.block }),
      }
    if (flagIn(state))
      return refused('PAYMENT_REPLAY', 'nonce_already_used', 'the authorization is used or canceled on chain')
    if (balance !== undefined && balance < exact.value) {
      return refused(
        'PAYMENT_UNFUNDED',
        'insufficient_balance',
        `the payer has ${balance} base units, the price is ${exact.value}`,
      )
    }
    return diagnose(given, { asset, time: seen.time, isContract }, at.signal)
  }

  /** What only the payer's own code can answer: whether it recognizes the signature, and whether the token would then move the money. */
  async function askPayer(
    { exact, digest }: Read,
    transfer: Target,
    signal: AbortSignal,
  ): Promise<{ moved: Returned; recognized: Returned } | Trouble> {
    const ask = (call: Target) => reads.askContract(exact.from, call, { signal, from: account.address })
    const [moved, recognized] = await Promise.all([
      ask(transfer),
      ask({ to: exact.from, data: signatureCall(digest, exact.signature) }),
    ])
    if (moved.kind === 'trouble') return moved
    return recognized.kind === 'trouble' ? recognized : { moved, recognized }
  }

  /** Why a funded, unused authorization would revert. One more round trip, on this path only. */
  async function diagnose(given: Read, found: Found, signal: AbortSignal): Promise<Refused | Unavailable> {
    const { exact, digest, separator } = given
    const { asset, time, isContract } = found
    const signer = isContract ? exact.from : await signerOf(digest, exact.signature)
    if (signer !== exact.from) return refusedSignature(exact, signer)
    if (exact.validAfter >= BigInt(time)) {
      const text = `authorization.validAfter is ${exact.validAfter}; the clock of the chain is at ${time}`
      return refused('PAYMENT_UNFUNDED', 'payload_authorization_valid_after', text)
    }
    const calls = [
      { to: asset, data: SEPARATOR_CALL },
      { to: asset, data: stateCall(exact.from, exact.nonce) },
    ]
    const token = await reads.view(calls, { lagSeconds: lagSeconds(config), signal })
    if (token.kind === 'trouble') return unavailable(token.reason)
    const [own, state] = token.results
    if (flagIn(state) === undefined)
      return refused('PAYMENT_INVALID', 'eip3009_not_supported', `${asset} has no authorizationState`)
    if (own?.ok && own.data !== separator) {
      return refused('PAYMENT_INVALID', 'token_name_mismatch', 'the token has another EIP-712 domain than the offer')
    }
    return refused('PAYMENT_INVALID', 'transaction_simulation_failed', 'transferWithAuthorization would revert')
  }

  async function settle(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Settlement> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return { kind: 'refused', reason: given.reason }
    return settler.settle(
      { exact: given.exact, offer, id: given.digest, hadCode: identity.hadCode(given.exact.from) },
      at,
    )
  }

  async function fate(payment: Payment, offer: Offer, at: { now: number; signal: AbortSignal }): Promise<Fate> {
    const given = identity.read(payment, offer)
    if ('kind' in given) return { kind: 'unknown', reason: given.reason }
    return reads.fate(given.exact, offer, at.signal)
  }

  async function check({ now }: { now: number } = { now: 0 }): Promise<Checked> {
    const checked = await checkEvm(rpc, { ...config, chainId, relayer: account.address, looksAtRelayer: watchesGas })
    if (checked.kind !== 'ready') return checked
    if (watchesGas) await gas.read(now)
    await reads.foundMulticall(checked.multicall)
    relayer.foundSync(checked.sync)
    terms = offered
    return checked
  }

  function close(): void {
    settler.close()
    relayer.close()
    rpc.close()
  }

  const balance: EvmChain['balance'] = (address, { signal }) =>
    reads.balance(asset, address, { lagSeconds: lagSeconds(config), signal })
  const low = () => (watchesGas ? gas.state().low : undefined)

  return {
    terms: () => (low() === undefined ? terms : []),
    closed() {
      const reason = low()
      return reason === undefined ? undefined : { code: 'no_gas', reason: `relayer_key: ${reason}` }
    },
    identify: identity.identify,
    verify,
    settle,
    fate,
    balance,
    check,
    refresh: async ({ now }) => (watchesGas ? await gas.refresh(now) : undefined),
    gas: gas.state,
    look: (key, now) =>
      lookAtKey(
        { rpc, feeAt: relayer.feeAt },
        { address: accountOf(key).address, transferGas, floor: config.gasFloor },
        now,
      ),
    isIdle: settler.isIdle,
    close,
  }
}

function lagSeconds(config: EvmConfig): number {
  return config.lagSeconds ?? 4
}

/** Whatever is wrong with a key, the error must not say it. */
function accountOf(key: string): PrivateKeyAccount {
  try {
    if (/^0x[0-9a-fA-F]{64}$/.test(key)) return privateKeyToAccount(key as Hex)
  } catch {
    // out of the curve's range
  }
  throw new RangeError('relayerKey must be 0x and 64 hex digits that make a key')
}
