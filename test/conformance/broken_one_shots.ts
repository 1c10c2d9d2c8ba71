import type { Paid } from '../../core/endpoint/mod.ts'
import { LOST } from '../../core/payment/ledger/mod.ts'
import type { KitOptions } from '../kit.ts'
import type { Broken } from './law.ts'
import { acting, DEFECTS, keepingFailed, onChain, onStorage, rewriting, saying, withHeader } from './gateway_defects.ts'
import { type Defect, type EndpointFixture, endpointFixture } from './endpoint_fixture.ts'

/** The parts of a one-shot endpoint, sold by gateways that are each wrong in one way. */
export function brokenOneShots(sold: Paid): readonly Broken<EndpointFixture>[] {
  const broken = (law: string, but: string, defect: Defect, setup: KitOptions = {}): Broken<EndpointFixture> => ({
    law,
    but,
    make: () => endpointFixture(sold, defect, () => setup),
  })
  return [
    broken(
      'the quote is one: in three equal headers, in the body, and in its price to four decimals or six (contract 1.3, 1.6, 1.12)',
      'shows another price than it asks',
      rewriting(
        ({ status }) => status === 402,
        (body) => ({ ...body, price: { ...body.price, amount: '0.0200' } }),
      ),
    ),
    broken(
      'a challenge is ASCII, with headers under 6 KB, and never cached (contract 1.10)',
      'lets caches keep a challenge',
      withHeader(
        ({ status }, { headers }) => status === 402 && !headers.has('payment-signature'),
        'cache-control',
        'public, max-age=60',
      ),
    ),
    broken('a quote lies between the least and the most that discovery says', ...DEFECTS.wrongRange),
    broken('a probe is answered with the quote, and buys nothing even with a payment', ...DEFECTS.noHead),
    broken(
      'bad input is 400 on the right side of the quote, takes no payment and frees it (contract 1.52)',
      'quotes whatever it is sent',
      acting((gateway) => ({
        async fetch(request, caller) {
          const response = await gateway.fetch(request, caller)
          const isOrder = response.status === 400 && !(await response.clone().text()).includes('JSON"')
          return isOrder ? await gateway.fetch(new Request(request.url), caller) : response
        },
      })),
    ),
    broken('a body over the cap is 413, with a body (contract 3.5)', ...DEFECTS.silentOnLargeBodies),
    broken(
      'an unknown field changes nothing, or is refused by its name (contract 4.2)',
      'refuses unknown fields',
      saying(async (response, request) =>
        `${request.url}${await request.text()}`.includes('some_unknown_field')
          ? Response.json({ error: 'Invalid request body' }, { status: 400, headers: response.headers })
          : response,
      ),
    ),
    broken(
      'it is sold under each of its methods alike, and under no other',
      'does not know a wrong method from a wrong path',
      saying((response) => (response.status === 405 ? new Response(response.body, { status: 404 }) : response)),
    ),
    broken(
      'what the operator has not configured is 503 in place of the 402 (contract 1.57)',
      ...DEFECTS.alwaysAvailable,
    ),
    broken(
      'nothing is asked of a vendor before the payment is verified (contract 1.29)',
      'works for those whose payment does not verify',
      onChain(({ verify }, { vendors: { search, market } }) => ({
        async verify(...args) {
          const verdict = await verify(...args)
          if (verdict.kind !== 'refused') return verdict
          await search?.search({ query: 'x', sources: ['web'], maxResults: 1 }, args[2]).catch(() => {})
          await market?.feeds('us', args[2]).catch(() => {})
          return verdict
        },
      })),
    ),
    broken(
      'a chain that cannot be asked is told as the row says, 503 with Retry-After or 402 with a challenge, and the same payment buys later',
      ...DEFECTS.silentNodeBlamesPayment,
    ),
    broken('nothing is settled before the result is stored (contract 1.30)', ...DEFECTS.lateResult),
    broken('exactly the quote moves, and the receipt is in the headers (contract 1.1, 1.32)', ...DEFECTS.noReceipt),
    broken(
      'the reply is the bare result, in the shape that the menu promises (contract 2.27)',
      'wraps its result',
      rewriting(
        ({ status }) => status === 200,
        (body) => ({ ...body, payment: { status: 'settled' } }),
      ),
    ),
    broken(
      'an identical resend within ten minutes gets the stored reply, already settled (contract 1.39)',
      'forgets a reply as soon as it is paid',
      {},
      { timeouts: { resendMs: 0 } },
    ),
    broken(
      'an identical resend after ten minutes is a replay, and makes nothing (contract 1.39)',
      'serves what was paid once for ever',
      {},
      { timeouts: { resendMs: 86_400_000 } },
    ),
    broken(
      'another request with a used authorization is refused under both header names, and names its call (contract 1.24, 1.25)',
      'does not say that a replay is recoverable',
      rewriting(
        (_, { error }) => /^Payment (?:verification failed|authorization already used)$/.test(error),
        ({ recoverable: _, ...body }) => body,
      ),
    ),
    broken(
      'what a settlement publishes reads nothing; the poll URL of our own reply reads, and so does a fresh signature, which is not spent (contract 1.40, 1.41, 1.42, 2.4, 2.5)',
      ...DEFECTS.readsByAddress,
    ),
    broken('the same request many times at once makes one call and one transfer', ...DEFECTS.callPerRacer),
    broken(
      'a vendor that fails, or never answers, charges nothing, and the same signed request buys afterwards (contract 1.28, 2.25)',
      'holds the authorization of a failed call',
      keepingFailed(({ workStatus, error }) => workStatus === 'failed' && error !== LOST),
    ),
    broken(
      'a refused settlement withholds the result, which a poll or a resend collects and pays for (contract 1.30, 1.33)',
      ...DEFECTS.noSettlementHeader,
    ),
    broken(
      'a settlement of unknown outcome is served all the same, and ends in one transfer (contract 1.35)',
      ...DEFECTS.lostIsRefused,
    ),
    broken(
      'a buyer who hangs up is not charged, and collects by a resend or a poll (contract 2.22)',
      ...DEFECTS.unawareOfLeavers,
    ),
    broken(
      'polls and resends at the same moment settle once: one reads settled, the others already_settled',
      'takes a settlement that is under way for one that cannot be',
      onStorage((good) => ({
        async claimSettlement(...args) {
          const claim = await good.claimSettlement(...args)
          return claim.kind === 'taken' ? { kind: 'nothing' } : claim
        },
      })),
    ),
    broken('another wallet is refused with 403, and neither is charged (contract 2.7)', ...DEFECTS.oneWallet),
    broken('one fresh authorization pays for one of two calls', ...DEFECTS.boundToMany),
    broken('a result that nobody collects is never charged', ...DEFECTS.sweepsUnpaid),
    broken(
      'work that dies with its process is failed, not charged, and its authorization is free',
      ...DEFECTS.noTakeOver,
    ),
    broken(
      'an error reads in the dialect of the endpoint, as JSON that is not cached, and leaks nothing (contract 3.19)',
      'speaks another dialect when it fails',
      rewriting(
        ({ status }) => status === 500 || status === 502,
        (body) => ({ ...body, error: { message: body.error } }),
      ),
    ),
  ]
}
