/**
 * Mistakes in the money rules that the tests must notice. `find` is source text in which white space does not count; it
 * stands once in its folders, so that a file may be renamed or split. A test in full says which no longer apply.
 */
import { channelMistakes } from './channel_mutants.ts'
import { searchMistakes } from './search_mutants.ts'

export type Mutant = {
  readonly name: string
  readonly find: string
  readonly put: string
  /** Folders that `find` stands in. */
  readonly within: readonly string[]
  /** The test files that notice it; without them, all tests of the money rules are asked. */
  readonly by?: readonly string[]
}

export type Scope = Pick<Mutant, 'within' | 'by'>
export type Mistake = readonly [name: string, find: string, put: string]

const CORE: Scope = { within: ['core/payment', 'core/identity', 'core/call'] }

const mutant = (name: string, find: string, put: string): Mutant => ({ name, find, put, ...CORE })

const ofCore: readonly Mutant[] = [
  // ── opening a call ────────────────────────────────────────────────────────────────────────────────────────────────
  mutant('a call is lost a millisecond late', `&& call.leaseExpiresAt <= now`, `&& call.leaseExpiresAt < now`),
  mutant(
    'a call whose settlement has begun is lost as well',
    `isUnfinished(call.workStatus) && call.paymentStatus === 'verified' && call.leaseExpiresAt`,
    `isUnfinished(call.workStatus) && call.leaseExpiresAt`,
  ),
  mutant(
    'a failed call frees an authorization that was sent',
    `(call.workStatus === 'failed' && call.paymentStatus === 'verified') || isLost`,
    `call.workStatus === 'failed' || isLost`,
  ),
  mutant(
    'an authorization opens any number of calls',
    `if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id }) const judged`,
    `const judged`,
  ),
  mutant(
    'an authorization opens a call, and is recorded as having paid for another one',
    `if (bound && !isFree(bound, at.lostBy ?? at.now)) return withoutWrites({ kind: 'replayed', id: bound.id }) if (!mayMoveRecord`,
    `if (!mayMoveRecord`,
  ),
  mutant(
    'a call is recorded as paid by a channel that has moved',
    `if (!mayMoveRecord(record, { ...spent, now: at.now })) return`,
    `if (false as boolean && record) return`,
  ),
  mutant('the cap is not kept', `if (judged?.kind === 'over') return`, `if (false) return`),
  mutant(
    'the lost call of a reused authorization is left unfinished',
    `{ isNew: true }) }, writes: [...$1(bound, at.now), { kind: 'insert'`,
    `{ isNew: true }) }, writes: [{ kind: 'insert'`,
  ),

  // ── claiming a settlement ─────────────────────────────────────────────────────────────────────────────────────────
  mutant(
    'a settled call is settled again',
    `if (call.receipt && call.paymentStatus === 'settled') return { answer: { kind: 'settled'`,
    `if (false as boolean && call.receipt) return { answer: { kind: 'settled'`,
  ),
  mutant('two settle one call at a time', `call.claimExpiresAt > at.now) {`, `call.claimExpiresAt > at.now + 1e12) {`),
  mutant('a claim lasts a millisecond longer', `call.claimExpiresAt > at.now) {`, `call.claimExpiresAt >= at.now) {`),
  mutant('claims share a token', `const token = call.claimToken + 1`, `const token = Math.max(1, call.claimToken)`),
  mutant(
    'a sent authorization is passed over for a fresh one',
    `seen.bindings.find((binding) => isSpendable(binding.status))`,
    `seen.bindings.find((binding) => binding.status === 'open')`,
  ),
  mutant('a sent authorization counts as never sent', `const fresh = first.status === 'open'`, `const fresh = true`),
  mutant(
    'what is about to be sent is not marked as sent',
    `...(fresh && !isOver ? [{ kind: 'mark', key: first.key, status: 'sent' } as const] : [])`,
    ``,
  ),
  mutant(
    'a dead payment of a channel is the end of its base',
    `!(before.status === 'dead' && offered && isCumulative(offered.offer))`,
    `offered !== undefined`,
  ),
  mutant(
    'money moves before the result is stored',
    `if (!done && call.workStatus !== 'completed') return`,
    `if (false) return`,
  ),
  mutant(
    'a poll spends the authorization of another call',
    `if (seen.bound && !isFree(seen.bound, at.lostBy ?? at.now))`,
    `if (false)`,
  ),
  mutant(
    'what a poll spends is bound as unsent',
    `(offered, call), $1: $2, status: 'sent' }`,
    `(offered, call), $1: $2, status: 'open' }`,
  ),

  // ── ending a settlement ───────────────────────────────────────────────────────────────────────────────────────────
  mutant(
    'a stale token ends a settlement',
    `call.claimKey !== null && call.claimToken === seen.token`,
    `call.claimKey !== null`,
  ),
  mutant(
    'a late answer overwrites a settled call',
    `if (call.paymentStatus === 'settled') return $1(outcome.kind === 'paid')`,
    ``,
  ),
  mutant(
    'an unknown outcome counts as dead',
    `if (outcome.kind === 'unknown') return $1('settling', { kind: 'mark', key: binding.key, status: 'sent' })`,
    `if (outcome.kind === 'unknown') return $1('settling', { kind: 'mark', key: binding.key, status: 'dead' })`,
  ),
  mutant(
    'other authorizations in doubt are forgotten',
    `const inDoubt = seen.bindings.some(`,
    `const inDoubt = [].some(`,
  ),
  mutant('a refusal frees what was sent before', `if (!call.claimFresh) return $1('settling')`, ``),
  mutant(
    'a call whose money is in doubt is forgotten',
    `if (call.paymentStatus !== 'verified' && call.paymentStatus !== 'refused') return`,
    ``,
  ),
  mutant(
    'a worker moves the call of another',
    `if (from.workerId !== undefined && from.workerId !== call.workerId) return false`,
    ``,
  ),
  mutant(
    'a result of nothing to pay is given for every call',
    `if (call.quote === 0n) return await completeFree`,
    `if (call.quote >= 0n) return await completeFree`,
  ),
  mutant(
    'a fresh authorization is bound without being verified',
    `let isVerified = offered.key === call.authorization`,
    `let isVerified = true`,
  ),
  mutant(
    'what is handed out by a poll is not noted',
    `if (claim.kind === 'yours' && offered.key !== call.authorization) await noteHandedOut(context.storage, offered, now)`,
    ``,
  ),
  mutant('what was sent is sent again without a look', `if (wasSent || isOver) {`, `if (isOver) {`),
  mutant(
    'a refusal after an earlier send is believed',
    `return wasSent ? { kind: 'unknown', reason: settlement.reason, isRefused: true } : settlement`,
    `return settlement`,
  ),
  mutant(
    'a settlement that never answered counts as refused',
    `: settlement } catch (error) { return { kind: 'unknown'`,
    `: settlement } catch (error) { return { kind: 'refused'`,
  ),
  mutant(
    'a result is given away as soon as its authorization has ended',
    `startedAt > authorization.expiresAt + timeouts.unresolvedMs`,
    `now > authorization.expiresAt`,
  ),
  mutant(
    'what was delivered and not sent counts as refused',
    `return isDelivered ? 'unknown' : 'refused'`,
    `return 'refused'`,
  ),
  mutant(
    'a result is stored for a call that has ended',
    `{ workStatus: ['queued', 'in_progress'], workerId: call.workerId, paymentStatus: 'verified' }`,
    `{ workStatus: ['queued', 'in_progress', 'failed'], paymentStatus: 'verified' }`,
  ),

  // ── exposure ──────────────────────────────────────────────────────────────────────────────────────────────────────
  mutant('the call itself is not counted', `if (sum > observed) return`, `if (sum - call.quote > observed) return`),
  mutant('exposure ends a minute early', `bindingExpiresAt > now`, `bindingExpiresAt > now + 60_000`),
  mutant('a settlement later than the block is not counted', `return block > at.block && age`, `return false && age`),
  mutant('a settlement that the balance may not show is not counted', `return age <= BALANCE_LAG_MS`, `return age < 0`),
  mutant(
    'two calls are open on a balance that cannot be read',
    `if (observed === undefined && open.size > 0)`,
    `if (observed === undefined && open.size > 1)`,
  ),
  mutant('a new wallet has one call more', `calls > newWallet.calls ||`, `calls > newWallet.calls + 1 ||`),
  mutant('a new wallet is not limited in worth', `|| worth > newWallet.worth`, ``),
  mutant('one call of a wallet counts for all', `found.set($1.id, $2)`, `found.set('', $2)`),

  // ── who may read, and who owes ────────────────────────────────────────────────────────────────────────────────────
  mutant('a payment that was sent proves its wallet', `return paymentStatus !== 'verified'`, `return false`),
  mutant(
    'an authorization that the chain knows nothing of is a proof',
    `if (fate.kind === 'open') return { kind: 'proof' }`,
    `if (fate.kind !== 'dead') return { kind: 'proof' }`,
  ),
  mutant(
    'an expired authorization proves a wallet',
    `if (expiresAt <= clock.now()) return none('PAYMENT_UNFUNDED'`,
    `if (false) return none('PAYMENT_UNFUNDED'`,
  ),
  mutant('a refused payment is not owed', `if (call?.paymentStatus === 'refused') $1 = call`, ``),
  mutant('any number of results may lie', `return waiting.length >= $1 && sum > holds ?`, `return false ?`),
  mutant(
    'unpaid calls are not looked for',
    `return servesBeforeSettlement(endpoint) ? await`,
    `return servesBeforeSettlement(endpoint) ? undefined && await`,
  ),
  mutant('orders have no cap', `, ...capFor(engine, verified, now) }`, ` }`),
  mutant(
    'whoever reads the chain reads the result',
    `const isRightful = isKnown && (isSame ||`,
    `const isRightful = true || (isSame ||`,
  ),
  mutant(
    'an authorization that was handed out by a poll buys again',
    `if (isPublic) return await refuse(`,
    `if (false) return await refuse(`,
  ),
  mutant(
    'a payment that does not verify opens a call',
    `if (verdict.kind === 'valid') return { ...signed, verdict, verifiedAt: clock.now() }`,
    `return { ...signed, verdict: verdict as never, verifiedAt: clock.now() }`,
  ),
  mutant('every poll key fits', `return matches.length > 0`, `return true`),
  mutant('every poll is rightful', `isRightful: isKeyed || isProven`, `isRightful: true`),
  mutant(
    'a signed poll URL never ends',
    `if (isOurs && Number(given.get('exp')) * 1000 > now) return`,
    `if (isOurs) return`,
  ),

  // ── delivering ────────────────────────────────────────────────────────────────────────────────────────────────────
  mutant(
    'who has left is charged',
    `if (turn.isOver || requestContext.gone.aborted) return await storeResult(engine, call, done.completion)`,
    ``,
  ),
  mutant(
    'a hybrid call whose payment was refused is told to wait for it',
    `const HYBRID: Readonly<Record<End, Row>> = { settled: SERVE, free: SERVE, refused: WITHHOLD,`,
    `const HYBRID: Readonly<Record<End, Row>> = { settled: SERVE, free: SERVE, refused: PENDING,`,
  ),
  mutant(
    'an inline answer whose payment was refused is delivered',
    `free: SERVE, refused: WITHHOLD_IF_LOST,`,
    `free: SERVE, refused: SERVE_UNPAID,`,
  ),
  mutant(
    'an inline answer that can never be paid is delivered',
    `unavailable: SERVE_UNPAID, expired: WITHHOLD,`,
    `unavailable: SERVE_UNPAID, expired: SERVE_UNPAID,`,
  ),
  mutant(
    'an answer that can never be paid is not withheld',
    `unavailable: SERVE_UNPAID, expired: WITHHOLD_UNPAID,`,
    `unavailable: SERVE_UNPAID, expired: SERVE_UNPAID,`,
  ),
  mutant(
    'an answer whose payment was refused is not owed',
    `const WITHHOLD_UNPAID: Row = { reply: 'withhold', note: 'unpaid' }`,
    `const WITHHOLD_UNPAID: Row = { reply: 'withhold', note: 'none' }`,
  ),
  mutant(
    'an answer whose payment is in doubt is not noted',
    `const SERVE_UNPAID: Row = { reply: 'serve', note: 'unpaid' }`,
    `const SERVE_UNPAID: Row = { reply: 'serve', note: 'none' }`,
  ),
  mutant(
    'an expired authorization counts as one that may still pay',
    `if (paying.kind === 'unavailable' && isExpired) return 'expired'`,
    ``,
  ),
  mutant('a delivery does not note what is unpaid', `if (note === 'unpaid') await noteUnpaid(engine, call)`, ``),

  // ── secondary payments ────────────────────────────────────────────────────────────────────────────────────────────
  mutant('a wallet pays for another', `if (payer !== call.payer)`, `if (false)`),
  mutant('a secondary payment serves two calls', `if (parent?.id === call.id) return true`, `if (parent) return true`),
  mutant(
    'a secondary payment of another amount is taken',
    `known.endpoint === name && known.quote === amount &&`,
    `known.endpoint === name &&`,
  ),
]

export const mutants: readonly Mutant[] = [
  ...ofCore,
  ...[...channelMistakes, ...searchMistakes].flatMap(([scope, list]) =>
    list.map(([name, find, put]) => ({ name, find, put, ...scope })),
  ),
]
