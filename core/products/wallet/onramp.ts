/**
 * Creates a link to buy USDC for a wallet. Its payment is a zero-amount authorization that proves the wallet (contract
 * 18.4).
 */
import { type Static, Type } from '@sinclair/typebox'
import { paid } from '../../endpoint/mod.ts'
import { ApiError } from '../../http/errors.ts'
import { forbidden, callContextIn } from '../../endpoint/call_context.ts'
import { clip } from '../../lib/text.ts'
import { usdc } from '../../x402/money.ts'

const HOUR_MS = 3_600_000
const WINDOWS = { address: { requests: 30, windowMs: HOUR_MS }, wallet: { requests: 10, windowMs: HOUR_MS } }
/** Lifetime of a link, which can be used once. */
const LIFE_MS = 300_000
const LINKS = 'https://pay.coinbase.com/'

const input = Type.Object({
  address: Type.String({
    pattern: '^0x[0-9a-fA-F]{40}$',
    description: 'The wallet on Base to fill; it is the one that signs.',
  }),
  network: Type.Optional(Type.Literal('base')),
  asset: Type.Optional(Type.Literal('USDC')),
})

const token = paid({
  name: 'onramp.token',
  path: '/api/v1/onramp/token',
  summary: 'A link to fill a wallet with USDC',
  description:
    'For one visit within five minutes. Free: sign an authorization of nothing with the wallet itself, which is never sent. 30 an hour from an address, 10 for a wallet.',
  tag: 'wallet',
  delivery: 'inline',
  failure: 'Onramp failed',
  retention: { unclaimedMs: LIFE_MS, settledMs: LIFE_MS },
  input,
  output: Type.Object({ url: Type.String() }),
  example: { address: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C', network: 'base', asset: 'USDC' },
  errors: ['NOT_ALLOWED', 'TOO_MANY_REQUESTS', 'UPSTREAM_FAILED'],
  price: () => ({ amount: usdc(0n), maxTimeoutSeconds: 300, publicPrice: {} }),
  isAvailable: (_input, { vendors, families = [] }) =>
    vendors.onramp !== undefined && (families.length === 0 || families.some(({ signsTransfers }) => signsTransfers)),

  async run(order) {
    const { address, network = 'base', asset = 'USDC' } = order.input as Static<typeof input>
    const { ip, permit } = callContextIn(order)
    const { payer, vendors, signal } = order
    if (address.toLowerCase() !== payer.toLowerCase())
      throw forbidden(
        'wrong_wallet',
        `address: must be the wallet that signs, ${payer}; got ${clip(address)}. Nothing was charged.`,
        { payer_wallet: payer },
      )
    if (!vendors.onramp) throw new ApiError('NOT_CONFIGURED')
    await permit('onramp', WINDOWS)
    const url = await vendors.onramp.link({ address: payer, network, asset, ip }, { signal })
    if (!url.startsWith(LINKS)) throw new Error('the link leads somewhere else')
    return { result: { url } }
  },

  show: ({ made }) => ({ url: (made as { readonly url: string }).url }),
})

export const onramp = [token]
