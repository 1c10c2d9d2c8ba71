/**
 * A product whose work goes on at its vendor's place, for tests: an invented studio that makes films, and says of them
 * what a test wants.
 */
import { Type } from '@sinclair/typebox'
import { PIXEL } from '../../../fakes/images.ts'
import {
  type UpstreamStatus,
  type UpstreamPollContext,
  type Order,
  paid,
  polled,
} from '../../../../core/endpoint/mod.ts'
import { decodeDataUri } from '../../../../core/lib/base64.ts'
import { endpoints, type Gateway, type Payment } from '../../../../core/mod.ts'
import { usdc } from '../../../../core/x402/money.ts'
import { type Answer, type Buyer, type Kit, kit, type KitOptions } from '../../../kit.ts'

export const FILMS = '/api/v1/films/generations'
export const FILM = { prompt: 'a red fox runs', seconds: 8 }
export const CLIP = 'https://studio.example/clip.png'

/** A vendor's answer for a film that is ready. */
export const DONE: UpstreamStatus = {
  kind: 'done',
  made: { result: { seconds: 8 }, media: { folder: 'films', urls: [CLIP], kinds: ['image'] } },
}
const RUNNING: UpstreamStatus = { kind: 'running', progress: 40 }

/** Requests that the studio got, and how many; its answers can be changed at any time. */
type Studio = {
  submitted: number
  polled: string[]
  fetched: number
  submit: (order: Order<unknown>) => Promise<void> | void
  status: (handle: string, looking: UpstreamPollContext) => Promise<UpstreamStatus> | UpstreamStatus
}

export type Cinema = Kit & { readonly studio: Studio }

export function cinema({ ports: { vendors, ...ports } = {}, ...options }: KitOptions = {}): Cinema {
  const studio: Studio = { submitted: 0, polled: [], fetched: 0, submit: () => {}, status: () => RUNNING }
  const film = paid({
    name: 'films.generations',
    path: FILMS,
    summary: 'Make a film',
    tag: 'films',
    input: Type.Object({ prompt: Type.String(), seconds: Type.Integer({ minimum: 1, maximum: 15 }) }),
    output: Type.Object({}),
    example: FILM,
    failure: 'Film generation failed',
    job: {
      object: 'film.job',
      poll: `${FILMS}/{id}`,
      instructions: 'GET poll_url as it is.',
      running: 'Still filming.',
      query: (request) => ({
        model: 'studio/film-1',
        duration: String((request as { duration_seconds: number }).duration_seconds),
      }),
    },
    price: ({ seconds }) => ({ amount: usdc(BigInt(seconds) * 50_000n), maxTimeoutSeconds: 600, publicPrice: {} }),
    remember: ({ seconds }) => ({
      model: 'studio/film-1',
      request: { model: 'studio/film-1', duration_seconds: seconds, _ours: 'secret' },
    }),
    delivery: 'upstream_job',
    async submit(order) {
      studio.submitted++
      await studio.submit(order)
      return { handle: `film of ${order.id}` }
    },
    async pollUpstream(handle, looking) {
      studio.polled.push(handle)
      return await studio.status(handle, looking)
    },
    show: ({ made, media, created }, { href }) => ({
      status: 'completed',
      created,
      data: media.map(({ key, url, source }) => ({
        url: key === null ? url : href(key),
        source_url: source,
        backed_up: key !== null,
        made,
      })),
    }),
  })
  const filmPoll = polled({
    name: 'films.poll',
    path: `${FILMS}/{id}`,
    summary: 'Collect a film',
    tag: 'films',
    of: ['films.generations'],
    signedQuery: true,
  })
  const media = async () => {
    studio.fetched++
    return decodeDataUri(PIXEL) as { bytes: Uint8Array; type: string }
  }
  const subject = kit({
    endpoints: [film, filmPoll, ...endpoints],
    // One wallet orders many of them; new_wallets_test.ts has what new ones may order.
    newWallets: { gateway: usdc(10n ** 12n), address: usdc(10n ** 12n), streamed: usdc(10n ** 12n) },
    ports: { ...ports, vendors: { media, ...vendors } },
    ...options,
  })
  return { ...subject, studio }
}

export type Shoot = Cinema & {
  readonly alice: Buyer
  readonly payment: Payment
  readonly envelope: Answer
  readonly id: string
  readonly pollUrl: string
}

/** A film of alice's that its vendor has taken. */
export async function shoot(subject: Cinema = cinema()): Promise<Shoot> {
  const alice = subject.buyer()
  const payment = await signed(alice)
  const envelope = await order(alice, payment)
  return { ...subject, alice, payment, envelope, id: envelope.body.id, pollUrl: envelope.body.poll_url }
}

/** A payment for the film. */
export const signed = async (buyer: Buyer): Promise<Payment> => buyer.sign(await buyer.ask(FILM, { path: FILMS }))

export function order(
  buyer: Buyer,
  payment: Payment,
  at: { gateway?: Gateway; gone?: AbortSignal; body?: unknown } = {},
): Promise<Answer> {
  const { body = FILM, ...rest } = at
  return buyer.buy(body, { path: FILMS, payment, ...rest })
}
