/** `farebox verify` of an API key: deposits, charges, claims and refunds, as the chain and the gateway have them. */
import { createPublicClient, type Hex, http, parseAbi, parseEventLogs, type RpcLog, toEventSelector, toHex } from 'viem'
import { usd } from '../buy/gateway.ts'
import { CHANNEL_CONTRACT } from '../../buyer/key_deposit.ts'
import { printable } from '../../proxy/payees.ts'
import { CommandError, type Io } from '../command.ts'
import { ask, bearer, keyAccount, reasonOf } from './command.ts'

const ABI = parseAbi([
  'struct ChannelConfig { address payer; address payerAuthorizer; address receiver; address receiverAuthorizer; address token; uint40 withdrawDelay; bytes32 salt; }',
  'event ChannelCreated(bytes32 indexed channelId, ChannelConfig config)',
  'event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance)',
  'event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed)',
  'event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount)',
  'event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount)',
])
const TOPICS = ABI.filter((item) => item.type === 'event').map((event) => toEventSelector(event))

type Sums = Readonly<Record<'deposits' | 'refunds' | 'withdrawals' | 'claims', bigint>>

type Verifying = {
  readonly io: Io
  readonly origin: string
  readonly rpcUrl: string
  readonly fromBlock: bigint
}

/** Prints what is compared. False where something differs. Throws CommandError where either side does not answer. */
export async function verifyKey({ io, origin, rpcUrl, fromBlock }: Verifying): Promise<boolean> {
  const key = io.env.FAREBOX_KEY
  const { address } = keyAccount(key)
  const answer = await ask(`${origin}/api/v1/keys/statement`, { headers: bearer(key ?? '') })
  if (answer.status !== 200) throw new CommandError(reasonOf(answer))
  const { channel_id: channelId, payer, calls, is_complete: isComplete } = answer.body
  if (typeof channelId !== 'string' || !/^0x[0-9a-f]{64}$/.test(channelId))
    throw new CommandError('The gateway names no channel of the key.')
  const [balance, charged, claimed, callsCharged] = ['balance', 'charged', 'claimed', 'calls_charged'].map((name) =>
    unitsOf(name, answer.body[name]),
  ) as [bigint, bigint, bigint, bigint]
  const { sums, config } = await chainOf(channelId as Hex, { rpcUrl, fromBlock })
  const { deposits, refunds, withdrawals, claims } = sums
  io.out(`key       ${address} on ${printable(String(answer.body.network))}, channel ${channelId}`)
  io.out(`deposits  ${usd(deposits)} USDC from ${printable(String(payer))}`)
  io.out(`charges   ${usd(charged)} USDC, of ${printable(String(calls))} calls`)
  io.out(`claims    ${usd(claims)} USDC, so ${usd(charged - claims)} are charged and not claimed`)
  io.out(`refunds   ${usd(refunds)} USDC${withdrawals > 0n ? `, and ${usd(withdrawals)} withdrawn by the wallet` : ''}`)
  io.out(`balance   ${usd(balance)} USDC, of which ${usd(balance - charged)} are not charged`)
  const isOf = (one: unknown, other: unknown) => String(one).toLowerCase() === String(other).toLowerCase()
  const wrong = [
    !isOf(config?.payerAuthorizer, address) && 'the channel is not of this key',
    !isOf(config?.payer, payer) && `the channel pays back to ${String(config?.payer)}`,
    deposits - refunds - withdrawals !== balance &&
      `deposits without refunds are ${usd(deposits - refunds - withdrawals)} on chain, and ${usd(balance)} at the gateway`,
    claims !== claimed && `the gateway says that ${usd(claimed)} are claimed`,
    claims > charged && 'more is claimed than the gateway says it charged',
    isComplete === true && callsCharged !== charged && `the charges of the calls are ${usd(callsCharged)} together`,
  ].filter((each) => each !== false)
  for (const each of wrong) io.out(`DIFFERS   ${each}`)
  if (isComplete !== true) io.out('The ledger has more calls than are summed, so their charges were not compared.')
  if (wrong.length === 0) io.out('equal     to the unit: deposits are charges, refunds and what is left')
  return wrong.length === 0
}

async function chainOf(channelId: Hex, { rpcUrl, fromBlock }: Pick<Verifying, 'rpcUrl' | 'fromBlock'>) {
  const node = createPublicClient({ transport: http(rpcUrl) })
  const filter = { address: CHANNEL_CONTRACT, fromBlock: toHex(fromBlock) }
  const logs = await node
    .request({ method: 'eth_getLogs', params: [{ ...filter, topics: [[...TOPICS], channelId], toBlock: 'latest' }] })
    .catch(() => {
      throw new CommandError(
        'The node does not answer for the logs of the channel. Give a later --from-block, or another --rpc.',
      )
    })
  const events = parseEventLogs({ abi: ABI, logs: logs as RpcLog[] as never })
  const total = (name: string) =>
    events.reduce((sum, { eventName, args }) => (eventName === name ? sum + amountOf(args) : sum), 0n)
  const sums: Sums = {
    deposits: total('Deposited'),
    refunds: total('Refunded'),
    withdrawals: total('WithdrawFinalized'),
    claims: total('Claimed'),
  }
  const created = events.find((event) => event.eventName === 'ChannelCreated')
  return { sums, config: created?.args.config }
}

function amountOf(args: object): bigint {
  const { amount, claimAmount } = args as { readonly amount?: bigint; readonly claimAmount?: bigint }
  return amount ?? claimAmount ?? 0n
}

function unitsOf(name: string, value: unknown): bigint {
  if (typeof value !== 'string' || !/^\d{1,15}\.\d{6}$/.test(value))
    throw new CommandError(
      `The gateway answers ${name} as ${printable(String(value))}; it must be USDC with six decimals.`,
    )
  return BigInt(value.replace('.', ''))
}
