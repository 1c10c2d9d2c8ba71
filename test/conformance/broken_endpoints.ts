import type { Paid } from '../../core/endpoint/mod.ts'
import type { Broken } from './law.ts'
import { acting, below, DEFECTS, keepingFailed, onChain, rewriting, saying, withHeader } from './gateway_defects.ts'
import { type Defect, type EndpointFixture, endpointFixture } from './endpoint_fixture.ts'

/** An endpoint sold by gateways that are each wrong in one way. */
export function brokenEndpoints(sold: Paid): readonly Broken<EndpointFixture>[] {
  const broken = (law: string, but: string, defect: Defect): Broken<EndpointFixture> => ({
    law,
    but,
    make: () => endpointFixture(sold, defect),
  })
  return [
    broken(
      'the quote is one: in three equal headers, in the body, and in its price (contract 1.3, 1.6, 1.12)',
      'shows another price than it asks',
      rewriting(
        ({ status }) => status === 402,
        (body) => ({ ...body, price: { ...body.price, amount: '0.020000' } }),
      ),
    ),
    broken(
      'a challenge is ASCII, under 6 KB and never cached (contract 1.10)',
      'lets caches keep a challenge',
      withHeader(({ status }) => status === 402, 'cache-control', 'public, max-age=60'),
    ),
    broken('a quote lies between the least and the most that discovery says', ...DEFECTS.wrongRange),
    broken('a probe without a body is answered with the quote of the example', ...DEFECTS.noHead),
    broken(
      'bad input is 400 before the quote, with a payment as without, and takes none (contract 1.52)',
      'quotes whatever it is sent',
      acting((gateway) => ({
        async fetch(request, caller) {
          const response = await gateway.fetch(request, caller)
          return response.status === 400 ? await gateway.fetch(new Request(request.url), caller) : response
        },
      })),
    ),
    broken('a body over the cap is 413, with a body (contract 3.5)', ...DEFECTS.silentOnLargeBodies),
    broken(
      'an unknown field changes nothing (contract 4.2)',
      'refuses unknown fields',
      saying(async (response, request) =>
        (await request.text()).includes('some_unknown_field')
          ? Response.json({ error: 'Invalid request body' }, { status: 400, headers: response.headers })
          : response,
      ),
    ),
    broken(
      'what the operator has not configured is 503 in place of the 402 (contract 1.57)',
      ...DEFECTS.alwaysAvailable,
    ),
    broken(
      'nothing is asked of a vendor before the payment is verified (contract 1.29)',
      'starts to work for anybody who signs anything',
      onChain(({ identify }, { vendors }) => ({
        async identify(...args) {
          void vendors
            .images({} as never)
            ?.generate({ model: '', prompt: '', width: 1, height: 1, n: 1 }, { signal: args[2].signal })
            .catch(() => {})
          return await identify(...args)
        },
      })),
    ),
    broken(
      'a chain that cannot be asked is told as the row says, 503 with Retry-After or 402 with a challenge, and the same payment buys later',
      ...DEFECTS.silentNodeBlamesPayment,
    ),
    broken('nothing is settled before the result is stored (contract 1.30)', ...DEFECTS.lateResult),
    broken(
      'exactly the quote moves, and the receipt says so in body and headers (contract 1.1, 1.32)',
      ...DEFECTS.noReceipt,
    ),
    broken('the reply has the shape that the menu promises', 'tells times as text', {
      endpoint: (good) => ({ ...good, show: (...args) => ({ ...good.show(...args), created: 'today' }) }),
    }),
    broken(
      'a used authorization is refused under both header names, and names its job',
      'does not say that a replay is recoverable',
      rewriting(
        (_, { code }) => code === 'PAYMENT_REPLAY',
        ({ recoverable: _, ...body }) => body,
      ),
    ),
    broken(
      'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
      ...DEFECTS.readsByAddress,
    ),
    broken('the same request many times at once makes one job and one transfer', ...DEFECTS.callPerRacer),
    broken(
      'a failure of the vendor charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)',
      'holds the authorization of a failed call',
      keepingFailed(({ error }) => error?.startsWith(sold.failure) === true),
    ),
    broken(
      'media that cannot be mirrored is served as the vendor made it, and not called backed up',
      'takes a full disk for a good one',
      below(({ objects }) => ({ objects: { ...objects, put: (...args) => objects.put(...args).catch(() => {}) } })),
    ),
    broken(
      'polls at the same moment settle once: one reads settled, the others already_settled (contract 1.31, 2.10)',
      'calls every collection a settlement',
      rewriting(
        (_, { payment }) => payment?.status === 'already_settled',
        (body) => ({ ...body, payment: { ...body.payment, status: 'settled' } }),
      ),
    ),
    broken('another wallet is refused with 403, and neither is charged (contract 2.7)', ...DEFECTS.oneWallet),
    broken('one fresh authorization pays for one of two calls', ...DEFECTS.boundToMany),
    broken(
      'a paid result stays readable when its authorization has expired and its wallet is empty',
      'does not know a wallet by an expired signature',
      onChain(({ identify }, { clock }) => ({
        async identify(...args) {
          const identity = await identify(...args)
          return identity.kind === 'known' && identity.expiresAt <= clock.now()
            ? { kind: 'refused', code: 'PAYMENT_UNFUNDED', reason: 'it has expired' }
            : identity
        },
      })),
    ),
    broken('a result that nobody collects is never charged', ...DEFECTS.sweepsUnpaid),
    broken('a buyer who hangs up is not charged, and collects by polling', ...DEFECTS.unawareOfLeavers),
    broken(
      'a refused settlement withholds the result, and a later poll collects it (contract 1.30, 1.33)',
      ...DEFECTS.noSettlementHeader,
    ),
    broken('a settlement of unknown outcome is 202, and ends in one transfer', ...DEFECTS.lostIsRefused),
    broken(
      'work that dies with its process is failed, not charged, and its authorization is free',
      ...DEFECTS.noTakeOver,
    ),
    broken(
      'an error reads in the dialect of the endpoint, as JSON that is not cached (contract 3.1)',
      'speaks another dialect when it fails',
      rewriting(
        ({ status }) => status === 500,
        (body) => ({ ...body, error: { message: body.error } }),
      ),
    ),
  ]
}
