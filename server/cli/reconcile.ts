/** `farebox reconcile`: the ledger against the chain, for a range of blocks. */
import { type Config, readConfig } from '../config/mod.ts'
import type { PaymentMethod } from '../config/payment_methods.ts'
import { type ChainSide, type Difference, type Reconciled, reconcileRange } from '../operator/reconcile.ts'
import { openForWriting, openLedger } from '../wiring/ledger.ts'
import { chainSide, type ComparableMethod, isComparable } from '../wiring/chains.ts'
import { type Command, CommandError, overridden, readOptions, UsageError } from './command.ts'

const text = { type: 'string' } as const
const options = {
  'from-block': text,
  'to-block': text,
  network: text,
  json: { type: 'boolean' },
  mend: { type: 'boolean' },
  config: text,
} as const

export const command: Command = {
  name: 'reconcile',
  summary: 'compare the ledger with the chain, and name what differs',
  help: `Compares the settled payments of the ledger with the transfers that the chain has, on EVM networks. It finds
what a restored older backup has forgotten, the calls of channels included. It reads the database while the gateway
runs, and writes nothing without --mend.

Usage: farebox reconcile [options]

Options:
  --from-block N  the first block; by default 43,200 blocks (a day on Base) before the last
  --to-block N    the last block; by default the newest
  --network ID    one network of the configuration, for example eip155:8453
  --mend          book each payment that the ledger lacks and whose authorization the chain tells (those by exact);
                  what was sold by it is not known: the call is of the endpoint "recovered". May be repeated
  --json          print JSON
  --config FILE   the configuration file (FAREBOX_CONFIG; default: farebox.toml)

Exit codes: 0 nothing differs, 1 something does or the chain cannot be asked, 2 wrong usage.

Examples:
  farebox reconcile
  farebox reconcile --mend
  farebox reconcile --network eip155:8453 --from-block 38000000 --to-block 38050000`,
  async run(args, io) {
    const { values } = readOptions(args, options, 0)
    const [fromBlock, toBlock] = [blockOf('from-block'), blockOf('to-block')]
    const range = { ...(fromBlock !== undefined && { fromBlock }), ...(toBlock !== undefined && { toBlock }) }
    const read = readConfig(overridden(io.env, { FAREBOX_CONFIG: values.config }))
    if (!read.ok)
      throw new CommandError(
        ['The configuration has these errors:', ...read.mistakes.map((each) => `  - ${each}`)].join('\n'),
      )
    const methods = comparable(read.config.gateways.flatMap(({ paymentMethods }) => paymentMethods))
    const wanted = methods.filter(({ network }) => values.network === undefined || network === values.network)
    if (wanted.length === 0)
      throw new CommandError(
        `There is no EVM network to compare with; configured: ${methods.map(({ network }) => network).join(', ') || 'none'}.`,
      )
    const ledger = await openLedger(read.config).catch((error: Error) => {
      throw new CommandError(error.message)
    })
    try {
      const found: Reconciled[] = []
      for (const method of wanted) {
        const side = await chainSide(method, range).catch((error: Error) => {
          throw new CommandError(`${method.network}: ${error.message}`)
        })
        const reconciled = await reconcileRange(ledger, side)
        const gateway = read.config.gateways.find(({ paymentMethods }) => paymentMethods.includes(method))?.name ?? ''
        const mended = values.mend ? await mend(read.config, { reconciled, side, gateway }) : []
        found.push({ ...reconciled, ...(values.mend && { mended }) })
      }
      for (const line of values.json ? [JSON.stringify(found, withoutTransfers, 2)] : found.flatMap(linesOf))
        io.out(line)
      return found.some(({ differences, mended = [] }) => differences.length > mended.length) ? 1 : 0
    } finally {
      await ledger.close()
    }

    function blockOf(name: 'from-block' | 'to-block'): number | undefined {
      const given = values[name]
      if (given !== undefined && !/^\d{1,12}$/.test(given))
        throw new UsageError(`--${name} ${given}: write a block number`)
      return given === undefined ? undefined : Number(given)
    }
  },
}

/** Throws where another process has the database for itself. */
async function mend(
  { database }: Config,
  { reconciled, side, gateway }: { reconciled: Reconciled; side: ChainSide; gateway: string },
): Promise<readonly Difference[]> {
  const { mendLedger } = await import('../operator/mend.ts')
  const opened = await openForWriting(database).catch((error: Error) => {
    throw new CommandError(error.message)
  })
  try {
    return await mendLedger({ storage: opened.storage, side, gateway, now: Date.now() }, reconciled.differences)
  } finally {
    await opened.close()
  }
}

const withoutTransfers = (name: string, value: unknown) => (name === 'transfer' ? undefined : value)

/** Each payee once, whatever the number of gateways that it is paid on. */
function comparable(methods: readonly PaymentMethod[]): readonly ComparableMethod[] {
  const found = methods.filter(isComparable)
  return [...new Map(found.map((each) => [`${each.network} ${each.asset} ${each.payTo}`.toLowerCase(), each])).values()]
}

function linesOf(reconciled: Reconciled): readonly string[] {
  const { network, from_block: from, to_block: to, matched, channels, differences, mended } = reconciled
  const byVouchers =
    channels &&
    `  channels: ${channels.charged} USDC charged by vouchers, ${channels.paid_out} USDC paid out by claims.`
  return [
    `${network}, blocks ${from} to ${to}: ${matched} payments agree, ${differences.length} differ.`,
    ...(byVouchers ? [byVouchers] : []),
    ...differences.map(({ kind, text: words }) => `  ${kind}: ${words}`),
    ...(mended ?? []).map(({ transaction, call }) => `  booked: ${transaction} as ${call}`),
  ]
}
