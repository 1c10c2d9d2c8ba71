/** Mistakes in claims, refunds and charges of channels, in what Solana payments may cost, and in the Postgres locks. */
import type { Mistake, Scope } from './mutants.ts'

const CHANNELS = 'adapters/chains/evm/channels'
const TESTS = 'test/adapters/chains/evm/channels'

const of = (file: string, ...by: readonly string[]): Scope => ({ within: [file], by })

export const channelMistakes: readonly (readonly [Scope, readonly Mistake[]])[] = [
  [
    of('core/call/answer/settle_stream.ts', 'test/core/call/refund_test.ts'),
    [
      ['a stream goes on after its deposit went back', `if (!isRefundable || settled) return true`, `return true`],
      ['a chain that is away ends a stream', `if (kind !== 'unavailable') return`, `return`],
    ],
  ],
  [
    of(CHANNELS, `${TESTS}/claims_test.ts`),
    [
      ['only the first hundred channels are claimed', `at += MAX_ROWS) {`, `at += 1e9) {`],
      [
        'channels after the first batch are left',
        `for (let at = 0; at < ids.length &&`,
        `for (let at = 0; at < MAX_ROWS && at < ids.length &&`,
      ],
      [
        'half of a batch that reverts is dropped',
        `return [...(await claim(claiming, rows.slice(0, half), now)), ...(await claim(claiming, rows.slice(half), now))]`,
        `return await claim(claiming, rows.slice(0, half), now)`,
      ],
      ['a batch that reverts is dropped', `if (rows.length === 1 && first) {`, `if (first) {`],
      ['only the first page of what is due is listed', `if (!last || page.length < PAGE) return`, `return`],
      ['a page is listed again and again', `after = last.id`, `if (!last) after = ''; return`],
      ['what is charged is not due', `(state.charged > state.claimed && (`, `(false && (`],
      ['a lost channel is listed for ever', `(state.balance > state.claimed || !isLost(state))`, `true`],
      [
        'what comes into a lost channel is not due',
        `(state.balance > state.claimed || !isLost(state))`,
        `!isLost(state)`,
      ],
      ['records of earlier versions are not listed', `await context.states.adopt(now)`, ``],
      [
        'a withdrawal waits until enough is due',
        `const ids = [...withdrawing, ...(due >= above ? waiting : [])]`,
        `const ids = due >= above ? [...withdrawing, ...waiting] : []`,
      ],
      ['what is due is claimed before the operator wants it', `(due >= above ? waiting : [])`, `waiting`],
      ['a claim may cost more than it brings', `if (due <= cost) continue`, `if (due <= 0n) continue`],
      [
        'a batch may cost more than it brings',
        `if (sumOf(rows) <= (await costOf(config, gasOf(rows), now))) return 0n`,
        `if (rows.length === 0) return 0n`,
      ],
      ['a channel whose due equals its gas is claimed', `if (due <= cost) continue`, `if (due < cost) continue`],
      ['gas of a batch is that of one row', `GAS.base + GAS.row * BigInt(rows.length)`, `GAS.base + GAS.row`],
      [
        'a claim is beyond the balance',
        `state.charged > state.balance ? { ...state, charged: state.balance } : state`,
        `state`,
      ],
      [
        'a late claim is not told',
        `if (now > (state.withdrawRequestedAt + config.withdrawDelay / 2) * 1000) found.late++`,
        ``,
      ],
      ['a channel that nobody looked at is not told', `found.late += page.filter(`, `0 + page.filter(`],
      ['a loss is told in every round', `if (lostAt !== undefined) return`, ``],
      ['a withdrawal is told in every round', `alerted.add(channelId)`, ``],
      [
        'most channels are never read again',
        `before + at < ALWAYS_READ || now - syncedAt > staleMs`,
        `before + at < ALWAYS_READ`,
      ],
      [
        'what was claimed is claimed again',
        `states.change(channelId, now, (state) => claimedTo(state, { charged, gas }))`,
        `Promise.resolve()`,
      ],
      ['two replicas claim', `if (!(await lease(now + 2 * everyMs))) return`, ``],
      [
        'the record of a closed channel stays',
        `(isClosed(state) ? CLOSED_RETENTION_MS : RETENTION_MS)`,
        `RETENTION_MS`,
      ],
      ['the record of a channel with money goes', `!isDue(state) && state.balance === state.claimed`, `!isDue(state)`],
      [
        'the record of a channel goes while its payments are alive',
        `CLOSED_RETENTION_MS = 31 * DAY_MS`,
        `CLOSED_RETENTION_MS = 30 * DAY_MS`,
      ],
    ],
  ],
  [
    of(CHANNELS, `${TESTS}/refunds_test.ts`),
    [['a channel that is being refunded is not listed', `isRefunding(state) || state.closing`, `state.closing`]],
  ],
  [
    of('adapters/chains/evm/node/gas.ts', `${TESTS}/claims_test.ts`),
    [
      ['gas costs nothing', `return (wei * gas *`, `return (0n * wei * gas *`],
      ['gas costs twice as much', `wei: (fee.max + fee.tip) / 2n`, `wei: fee.max + fee.tip`],
    ],
  ],
  [
    of(`${CHANNELS}/refunds`, `${TESTS}/refunds_test.ts`),
    [
      ['a sent refund is sent again at once', `if (now - state.refund.at < RESEND_MS) return`, `if (false) return`],
      ['a refund that was sent is never sent again', `now - state.refund.at >= RESEND_MS`, `false`],
      [
        'a refund is sent while a call of the channel is open',
        `if (isClosing(request) || (await at.isFree(request.key))) return await`,
        `return await`,
      ],
      [
        'a refund sends what is charged',
        `amount: partOf(request) ?? String(left)`,
        `amount: partOf(request) ?? String(left + charged)`,
      ],
      [
        'a refund leaves what is due unclaimed',
        `if (charged <= claimed) return allOf([back])`,
        `if (charged >= claimed) return allOf([back])`,
      ],
      ['a stranger is sent a refund', `if (!isRefundPublic(state)) return undefined`, `return undefined`],
      ['a refund on another base is made', `if (ceiling !== charged) return outOfStep(ceiling, state)`, ``],
      ['more than what is left is sent back', `if (amount === 0n || amount > left) {`, `if (amount === 0n) {`],
      [
        'a refund that would revert is sent',
        `if (seen.kind === 'failure' || !seen.results[0]?.ok) await drop(refunds, requested, now)`,
        ``,
      ],
      [
        'a refund that was mined is sent again',
        `if (mirror.refundNonce > BigInt(state.refund.nonce)) return await done(refunds, state, await paidBefore(refunds, state), now) if (now - state`,
        `if (now - state`,
      ],
      [
        'the request of a dead process stays for ever',
        `return now - state.refund.at < REQUESTED_MS ? state`,
        `return state ? state`,
      ],
      ['a request under way is dropped', `return now - state.refund.at < REQUESTED_MS ? state`, `return false ? state`],
      [
        'a refund that reverted stays under way',
        `await drop(refunds, state, now) return unavailable('the refund reverted: nothing moved')`,
        `return unavailable('the refund reverted: nothing moved')`,
      ],
      [
        'a refund that was not sent stays under way',
        `if (sent.kind === 'rejected') { reserved.release() await drop(refunds, state, now)`,
        `if (sent.kind === 'rejected') { reserved.release()`,
      ],
      [
        'a repeated refund is made again',
        `return { kind: 'refunded', receipt: receiptOf(refunds, state, last), isRepeated: true }`,
        `return undefined`,
      ],
    ],
  ],
  [
    of(`${CHANNELS}/state.ts`, `${TESTS}/withdrawn_test.ts`, `${TESTS}/claims_test.ts`),
    [['money that is being withdrawn pays', `? balance - withdrawing : balance`, `? balance : balance`]],
  ],
  [
    of(`${CHANNELS}/keys`, `${TESTS}/keys/key_calls_test.ts`),
    [
      [
        'a call of a key is charged without a reservation',
        `if (!isReserved(keys, before, { name, now })) return 'the`,
        `if (false) return 'the`,
      ],
      [
        'open calls of a key reserve nothing',
        `state.charged - reserved(keys, state, now) return`,
        `state.charged return`,
      ],
      [
        'a call of a key is charged twice',
        `if (earlier !== undefined) return { kind: 'settled'`,
        `if (false) return { kind: 'settled'`,
      ],
      ['a voucher of a key covers less than its charge', `if (needed <= state.ceiling) return state`, `return state`],
      [
        'money that is being withdrawn pays for calls of a key',
        `const left = state.balance - state.withdrawing - state.charged - reserved(keys, state, now)`,
        `const left = state.balance - state.charged - reserved(keys, state, now)`,
      ],
      [
        'the reservation of a process that is gone never ends',
        `(state.reserved?.[name]?.until ?? 0) > now ||`,
        `state.reserved?.[name] !== undefined ||`,
      ],
    ],
  ],
  [
    of(`${CHANNELS}/keys/child_calls.ts`, 'test/core/call/child_keys_test.ts'),
    [
      ['a child spends more than its cap', `childOf(name) ?? '', -price)`, `childOf(name) ?? '', 0n)`],
      [
        'what a call of a child is not charged is lost to it',
        `BigInt(state.reserved?.[name]?.amount ?? 0) - due)`,
        `0n)`,
      ],
    ],
  ],
  [
    of(`${CHANNELS}/deposits.ts`, `${TESTS}/costs_test.ts`),
    [
      [
        'deposits that revert are not bounded over all wallets',
        `if (isWasted) shared.spend()`,
        `if (false) shared.spend()`,
      ],
      ['a deposit into a known channel counts as a first one', `? 'later' : 'first'`, `? 'first' : 'first'`],
      ['deposits that land count as reverted', `else shared.release()`, `else shared.spend()`],
      ['deposits under way count as reverted for an hour', `if (isBusy) return`, `if (false) return`],
    ],
  ],
  [
    of(`${CHANNELS}/known_states.ts`, `${TESTS}/known_states_test.ts`),
    [
      [
        'a late answer of the storage puts an older state in the place of a newer one',
        `if (isStored && states.get(name) === before)`,
        `if (isStored)`,
      ],
      [
        'a state that may have changed while it was read is kept',
        `if (known.dropped !== dropped || states.get(name)) continue`,
        ``,
      ],
    ],
  ],
  [
    of(`${CHANNELS}/state.ts`, 'test/core/call/key_repeats_test.ts', 'test/core/call/child_keys_test.ts'),
    [
      [
        'a charge is forgotten before the ledger has it',
        `.filter(([each]) => !isRecorded(each))`,
        `.filter(() => false)`,
      ],
      [
        'what a killed process had reserved of the cap of a child is lost to it',
        `if (own) open[source] =`,
        `if (own && false) open[source] =`,
      ],
    ],
  ],
  [
    of('core/call', 'test/core/call/key_repeats_test.ts'),
    [
      [
        'an Idempotency-Key finds the purchase of another key of the same wallet',
        `tag: apiKey ? tagFor(apiKey.address, PURCHASE_FIELD) : tagFor(payer)`,
        `tag: apiKey ? tagFor(payer, PURCHASE_FIELD) : tagFor(payer)`,
      ],
      [
        'a tool with a key is told of a job that it cannot poll',
        `const giveUpAt = clock.now() + (isAwaited && waiting < MAX_WAITING ? MAX_WAIT_MS : 0)`,
        `const giveUpAt = clock.now()`,
      ],
    ],
  ],
  [
    of('core/identity/presented_key.ts', 'test/core/call/api_keys_test.ts'),
    [
      [
        'a key in a prompt goes to the vendor',
        `if (!containsKey(text) && !(text.includes(ESCAPED) && containsKey(unescaped(text)))) return`,
        `return`,
      ],
    ],
  ],
  [
    of(`${CHANNELS}/settle.ts`, `${TESTS}/withdrawn_test.ts`, `${TESTS}/claims_test.ts`),
    [
      [
        'a settlement that nobody waits for is charged',
        `if (at.signal.aborted) return { kind: 'unknown', reason: 'no time left to settle' } const`,
        `const`,
      ],
      [
        'an unpaid poll stores a record',
        `const noted = await vouchers.states.mirror(channelId, mirror, now)`,
        `await vouchers.states.replace(undefined, newState(voucher, mirror, now), now); const noted = await vouchers.states.mirror(channelId, mirror, now)`,
      ],
    ],
  ],
  [
    of('adapters/chains/solana', 'test/adapters/chains/solana/attacks_test.ts'),
    [
      ['a priority fee is not tied to the price', `if (priority <= most) return undefined`, `return undefined`],
      ['a payment may cost any fee', `if (fee > limits.maxFeeLamports)`, `if (false)`],
      ['any amount pays', `if (amount !== parseAtomic(offer.amount))`, `if (false)`],
      ['a payment to somebody else is taken', `if (destination !== payTo)`, `if (false)`],
      ['a payment of another token is taken', `if (mint !== offer.asset) return`, `if (false) return`],
      ['the fee payer pays the price', `if (isOneOf(feePayers, payer)) return`, `if (false) return`],
    ],
  ],
  [
    of('adapters/storage', 'test/adapters/storage/postgres/buyers_full_test.ts'),
    [
      [
        'Postgres: buyers of a day are counted while a late sale of it is under way',
        `session.run('LOCK TABLE buyers_by_day IN SHARE ROW EXCLUSIVE MODE')`,
        `session.run('SELECT 1')`,
      ],
      [
        'Postgres: a late sale leaves the number of buyers that was counted before it',
        `AFTER INSERT ON spend_totals FOR EACH ROW
    WHEN (NEW.day < `,
        `AFTER INSERT ON spend_totals FOR EACH ROW
    WHEN (false AND NEW.day < `,
      ],
    ],
  ],
  [
    of('adapters/storage', 'test/adapters/storage/postgres/lookups_full_test.ts'),
    [
      ['Postgres: failed calls are read by each opening', `IF has_failed AND NOT had_failed THEN`, `IF false THEN`],
      [
        'Postgres: a call that comes back spends nothing',
        `ELSIF had_failed AND NOT has_failed THEN`,
        `ELSIF false THEN`,
      ],
    ],
  ],
  [
    of('adapters/storage', 'test/adapters/storage/postgres/locks_full_test.ts'),
    [
      [
        'Postgres: a step is written although the call has changed since it was seen',
        `\${isSame(changing)} and (\${nameOf(receipt)} is null) = @hasNoReceipt`,
        `(\${nameOf(receipt)} is null) = @hasNoReceipt`,
      ],
      [
        'Postgres: an authorization is marked although it has changed since it was seen',
        `where key = @key and call = @call and status = @before',
  ),`,
        `where key = @key and call = @call and (status = @before or true)',
  ),`,
      ],
      [
        'Postgres: calls of one wallet are opened without the lock of its row',
        `payer: { payer: call.payer, asset: call.asset },`,
        ``,
      ],
      [
        'Postgres: calls of one wallet are opened beside a replica that locks its name',
        `locks: [keyLock(key), payerLock(call)],`,
        `locks: [keyLock(key)],`,
      ],
      [
        'Postgres: calls of one authorization are opened beside a replica that locks its name',
        `locks: [keyLock(key), payerLock(call)],`,
        `locks: [payerLock(call)],`,
      ],
      [
        'Postgres: an authorization is bound whichever call it serves by now',
        '`${upsert(authorizations)} where authorizations.call = @boundTo`',
        'upsert(authorizations)',
      ],
      [
        'Postgres: a call is judged without the lock of its row',
        "select('head', head, `from calls where id = @id ${lock}`)",
        "select('head', head, `from calls where id = @id`)",
      ],
      [
        'Postgres: a step is written on rows of which only some are as they were',
        "is not distinct from' : '='} @${field}`) .join(' and ')",
        "is not distinct from' : '='} @${field}`) .join(' or ')",
      ],
      [
        'Postgres: a record is moved without its lock',
        '`from records where kind = @kind and id = @id ${lock}`',
        '`from records where kind = @kind and id = @id`',
      ],
    ],
  ],
  [
    of('core/payment/reports', 'test/core/payment/archive_test.ts'),
    [
      ['the archive sums on another day', '`${month}-01T00:00:00Z`', '`${month}-02T00:00:00Z`'],
      [
        'what the archive did not keep is deleted',
        `if (calls.length > 0 && file?.calls.length !== calls.length)`,
        `if (false)`,
      ],
    ],
  ],
  [
    of('core/payment', 'test/core/payment', 'test/adapters/storage/storage_test.ts'),
    [
      [
        'a record is moved whatever it says',
        `return current !== undefined && isSame(current.data, change.from)`,
        `return current !== undefined`,
      ],
      [
        'a ledger row goes while its authorization can be replayed',
        `return isOld && bindings.every(`,
        `return isOld || bindings.every(`,
      ],
      [
        'a paid result goes with its ledger row',
        `if (call.paymentStatus === 'settled') return call.emptied ? 'none' : 'empty'`,
        `if (call.paymentStatus === 'settled') return 'delete'`,
      ],
      [
        'a worker renews the call of another',
        `if (!call || call.workerId !== seen.workerId) return`,
        `if (!call) return`,
      ],
      ['what is charged by use counts as quoted', `const spent = row.charge ?? row.quote`, `const spent = row.quote`],
      ['spending of another wallet is reported', `row.payer !== payer ||`, ``],
      ['five abandoned calls are not enough', `const MAX_ABANDONED = 5`, `const MAX_ABANDONED = 6`],
      ['what a wallet paid covers every abandoned call', `credit -= worth`, ``],
    ],
  ],
  [
    of('core/payment/control', 'test/core/payment/control_test.ts', 'test/core/payment/control_vouchers_test.ts'),
    [
      [
        'a refused payment is kept in the spending limit',
        `if (known && (outcome.kind === 'refused' || outcome.kind === 'dead')) pending.delete(id)`,
        ``,
      ],
      [
        'what vouchers have paid is not in the spending limit',
        `pending.set(id, { payer, gateway, amount, until: createdAt + PENDING_MS, settlement: ++state.settlements })`,
        ``,
      ],
    ],
  ],
  [
    of('adapters/storage/sqlite', 'test/adapters/storage/sums_test.ts'),
    [
      ['sums of a commit that was taken back are written', `clear() const made = step()`, `const made = step()`],
      [
        'a call that is deleted is taken out of sums that are not written yet',
        `sums.flush() return settled`,
        `return settled`,
      ],
      [
        'tokens that are counted late go to no sum',
        `if (before.paymentStatus === 'settled' && usage !== undefined) flush()`,
        ``,
      ],
      ['a sale leaves the buyers of its day as they were', `forgetDay(day)`, `void day`],
      ['the archive leaves the buyers of a day as they were', `buyers.forget(values.day)`, ``],
      ['a deletion leaves the buyers of a day as they were', `buyers.forgetDaysOf(values.ids)`, ``],
      ['a payment counts again with each change', `before.paymentStatus !== 'settled' &&`, ``],
      [
        'the days of calls are not counted',
        `for (const unit of [HOUR_MS, DAY_MS]) addTotal`,
        `for (const unit of [HOUR_MS]) addTotal`,
      ],
      [
        'a call that was paid before it is stored counts as it was opened',
        `[ask.insertPaid, { ...row, ...patch }]`,
        `[ask.insertPaid, row]`,
      ],
    ],
  ],
  [
    of('core/payment/control', 'test/core/payment/control_totals_test.ts'),
    [
      ['settlements that the sums have are counted again', `Math.max(state.summedUntil, overlap)`, `overlap`],
      ['the hours of today are not in the sum of a gateway', `...(until > day ?`, `...(until < day ?`],
      [
        'what settled before the sums were read is counted beside them',
        `if (settlement <= settlements) pending.delete(id)`,
        ``,
      ],
      ['settled calls are never forgotten', `(!isFollowed && settlement <= summed)`, `false`],
      ['what a sum of a wallet lacks is forgotten while it is read', `settlement <= summed)`, `settlement < Infinity)`],
    ],
  ],
  [
    of(CHANNELS, `${TESTS}/channels_full_test.ts`),
    [
      [
        'vouchers that claims have published are not read',
        `if (!unread) return undefined`,
        `if (unread) return undefined`,
      ],
      [
        'vouchers are read of channels without a record only',
        `forgotten === undefined ? 0n :`,
        `forgotten !== undefined ? claimed :`,
      ],
      ['claims inside a multicall are not read', `return call.args[0].flatMap(vouchersIn)`, `return []`],
    ],
  ],
  [
    of('core/call', 'test/core/call/prepaid_test.ts'),
    [
      [
        'an old voucher is told the call before while the channel cannot be read',
        `if (verdict.kind === 'unavailable') return verdict`,
        ``,
      ],
      [
        'a poll does not correct an old voucher',
        `const verdict = isCumulative(offer) ? await engine.offers.verify(paying, offer) : undefined`,
        `const verdict = isCumulative(offer) ? undefined : await engine.offers.verify(paying, offer)`,
      ],
    ],
  ],
  [
    of('adapters/chains/lib', 'test/adapters/chains/solana/check_test.ts', 'test/adapters/chains/evm/check_test.ts'),
    [
      ['one bad answer stops a start', `if (first.kind !== 'wrong') return first`, `return first`],
      [
        'a problem counts that only one round has found',
        `again.problems.filter((problem) => first.problems.includes(problem))`,
        `again.problems`,
      ],
    ],
  ],
  [
    of('server/mcp', 'test/server/mcp/mcp_test.ts'),
    [['a tool hides the code of a correction', `isCode(demand.error) ? 'details' : 'error'`, `'error'`]],
  ],
]
