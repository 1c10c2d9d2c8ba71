/**
 * One deliberately broken storage per law. Each has a single defect, on which its law must fail and every other must
 * hold.
 */
import { memoryStorage } from '../../adapters/storage/memory/mod.ts'
import { mayMove, mayMoveRecord } from '../../core/payment/ledger/mod.ts'
import { parseAtomic, usdc } from '../../core/x402/money.ts'
import type { Authorization, Call, StoredRecord, Spend, Storage } from '../../core/ports/mod.ts'
import type { Receipt } from '../../core/x402/protocol.ts'
import { breaking, type Broken } from './law.ts'
import { brokenListings } from './storage_listings.ts'
import { brokenPrepaid } from './storage_prepaid.ts'
import { T } from './storage_questions.ts'

const broken = breaking<Storage>(memoryStorage, { close: (good) => good.close(), finish: copying })

export const brokenStorages: readonly Broken<Storage>[] = [
  // ── opening ────────────────────────────────────────────────────────────────────────────────────────────────────────
  broken('openCall() gives one winner among twenty racers', 'looks first and inserts later', (good) => ({
    async openCall(call, authorization, at) {
      const known = await good.callOf(authorization.key, at.lostBy ?? at.now)
      await turn()
      const answer = await good.openCall(call, authorization, at)
      return known || answer.kind !== 'replayed' ? answer : good.openCall(call, disguised(authorization, call.id), at)
    },
  })),
  broken(
    'the loser of openCall() learns the call of the winner',
    'answers with the call that was asked for',
    (good) => ({
      async openCall(call, authorization, at) {
        const answer = await good.openCall(call, authorization, at)
        return answer.kind === 'replayed' ? { kind: 'replayed', call: { ...answer.call, id: call.id } } : answer
      },
    }),
  ),
  broken(
    'an authorization opens one call, while that call works and when it is done',
    'takes a completed call for paid and gone',
    (good) => ({
      async openCall(call, authorization, at) {
        const known = await good.callOf(authorization.key, at.now)
        const isOver = known?.workStatus === 'completed' && known.paymentStatus === 'verified'
        return good.openCall(call, isOver ? disguised(authorization, call.id) : authorization, at)
      },
    }),
  ),
  broken(
    'a call id opens once: another authorization under it is rejected, and nothing is written',
    'makes do with another id',
    (good) => ({
      openCall: (call, authorization, at) =>
        good
          .openCall(call, authorization, at)
          .catch(() => good.openCall({ ...call, id: `${call.id} again` }, authorization, at)),
    }),
  ),
  broken('a failed call frees its authorization in the same step', 'leaves freeing to a sweep', (good) => {
    const openers = openersOf(good)
    return {
      async openCall(call, authorization, at) {
        const last = await openers.last(authorization.key)
        if (last?.workStatus === 'failed') return { kind: 'replayed', call: last }
        return openers.openCall(call, authorization, at)
      },
    }
  }),
  broken('a lost call frees its authorization, and is failed in the same step', 'forgets the lost call', (good) => {
    const openers = openersOf(good)
    return {
      async openCall(call, authorization, at) {
        const last = await openers.last(authorization.key)
        const isLost =
          last &&
          (last.workStatus === 'queued' || last.workStatus === 'in_progress') &&
          last.leaseExpiresAt <= (at.lostBy ?? at.now) &&
          !at.cap
        return isLost
          ? good.openCall(call, disguised(authorization, call.id), at)
          : openers.openCall(call, authorization, at)
      },
    }
  }),
  broken("the end of an owner's promise is exact", 'waits a millisecond longer', (good) => ({
    callOf: (key, now) => good.callOf(key, now - 1),
  })),
  broken('a call with a settlement begun never frees its authorization', 'frees what was refused', (good) => ({
    async openCall(call, authorization, at) {
      const known = await good.callOf(authorization.key, at.now)
      return good.openCall(
        call,
        known?.paymentStatus === 'refused' ? disguised(authorization, call.id) : authorization,
        at,
      )
    },
  })),
  broken('callOf() finds a call by each of its authorizations', 'knows the original only', (good) => ({
    async callOf(key, now) {
      const found = await good.callOf(key, now)
      return found?.authorization === key ? found : undefined
    },
  })),
  broken('a call comes back as it was given', 'forgets the fingerprint', (good) => ({
    async getCall(id) {
      const found = await good.getCall(id)
      return found && { ...found, fingerprint: '' }
    },
  })),
  broken('money round-trips as bigint', 'holds it as a double', (good) => ({
    async getCall(id) {
      const found = await good.getCall(id)
      return found && { ...found, quote: usdc(BigInt(Number(found.quote))) }
    },
  })),
  broken('nobody holds a row of the storage', 'hands out its cache', (good) => {
    const cache = new Map<string, { handed: Call; truth: Call }>()
    return {
      async getCall(id) {
        const truth = await good.getCall(id)
        const cached = cache.get(id)
        if (!truth || (cached && Bun.deepEquals(cached.truth, truth))) return cached?.handed
        const handed = structuredClone(truth)
        cache.set(id, { handed, truth })
        return handed
      },
    }
  }),

  // ── exposure ───────────────────────────────────────────────────────────────────────────────────────────────────────
  broken(
    'openCall() lets 500 racing calls of one payer spend a balance once',
    'sums first and inserts later',
    (good) => {
      let inFlight = 0
      return {
        async openCall(call, authorization, { cap, ...at }) {
          const isAlone = inFlight++ === 0
          await turn()
          inFlight--
          const isAllowed = isAlone || cap?.newWallet || cap?.observed === undefined
          return good.openCall(call, authorization, { ...at, ...(cap && isAllowed && { cap }) })
        },
      }
    },
  ),
  broken(
    'openCall() lets 100 racing calls of one payer open one where its balance cannot be read, and another once that has ended',
    'trusts an unknown balance with 5 USDC',
    (good) => ({
      openCall: (call, authorization, { cap, ...at }) =>
        good.openCall(call, authorization, {
          ...at,
          ...(cap && { cap: { ...cap, observed: cap.observed ?? usdc(5_000_000n) } }),
        }),
    }),
  ),
  broken(
    'openCall() lets a wallet that never paid open two of 30 racing calls that are served before they are paid for',
    'counts first and inserts later',
    (good) => {
      let inFlight = 0
      const paid = new Set<string>()
      return {
        async finishSettlement(id, token, outcome, at) {
          const call = outcome.kind === 'paid' ? await good.getCall(id) : undefined
          if (call) paid.add(call.payer)
          return await good.finishSettlement(id, token, outcome, at)
        },
        async openCall(call, authorization, { cap, ...at }) {
          const isAlone = inFlight++ === 0
          await turn()
          inFlight--
          const { newWallet: _, ...rest } = cap ?? { asOf: 0 }
          const isCounted = isAlone || paid.has(call.payer)
          return good.openCall(call, authorization, { ...at, ...(cap && { cap: isCounted ? cap : rest }) })
        },
      }
    },
  ),
  broken(
    'openCall() tells that a wallet is new until it has paid as much as the cap says (contract 1.95)',
    'takes any payment for enough',
    (good) => ({
      openCall(call, authorization, { cap, ...at }) {
        const newWallets = cap?.newWallets && { ...cap.newWallets, paid: 0n as never }
        return good.openCall(call, authorization, {
          ...at,
          ...(cap && { cap: { ...cap, ...(newWallets && { newWallets }) } }),
        })
      },
    }),
  ),
  broken(
    'a wallet is new in an asset until a call of it has settled there, at whatever gateway',
    'takes what was paid in another asset for enough',
    (good) => {
      const paid = new Map<string, Set<string>>()
      return {
        async finishSettlement(id, token, outcome, at) {
          const call = outcome.kind === 'paid' ? await good.getCall(id) : undefined
          if (call) paid.set(call.payer, new Set([...(paid.get(call.payer) ?? []), call.asset]))
          return await good.finishSettlement(id, token, outcome, at)
        },
        openCall(call, authorization, { cap, ...at }) {
          const { newWallet: _, ...rest } = cap ?? { asOf: 0 }
          const assets = paid.get(call.payer)
          const isTaken = assets !== undefined && !assets.has(call.asset)
          return good.openCall(call, authorization, { ...at, ...(cap && { cap: isTaken ? rest : cap }) })
        },
      }
    },
  ),
  broken(
    'a wallet that has paid opens what it likes, and is told beyond what it has paid and beyond what a new one may have (contract 1.47)',
    'trusts whoever has paid once without end',
    (good) => {
      const paid = new Set<string>()
      return {
        async finishSettlement(id, token, outcome, at) {
          const call = outcome.kind === 'paid' ? await good.getCall(id) : undefined
          if (call) paid.add(`${call.payer} ${call.asset}`)
          return await good.finishSettlement(id, token, outcome, at)
        },
        openCall(call, authorization, { cap, ...at }) {
          const { newWallet: _, ...rest } = cap ?? { asOf: 0 }
          return good.openCall(call, authorization, {
            ...at,
            ...(cap && { cap: paid.has(`${call.payer} ${call.asset}`) ? rest : cap }),
          })
        },
      }
    },
  ),
  broken(
    'exposure counts what was settled after the block of a balance, and nothing that was settled up to it',
    'reads its balances a block late',
    (good) => ({
      openCall: (call, authorization, { cap, ...at }) =>
        good.openCall(call, authorization, {
          ...at,
          ...(cap && { cap: { ...cap, ...(cap.block !== undefined && { block: cap.block + 1 }) } }),
        }),
    }),
  ),
  broken('over() tells the sum, and nothing is written', 'binds the authorization before it counts', (good) => ({
    async openCall(call, authorization, at) {
      const answer = await good.openCall(call, authorization, at)
      if (answer.kind !== 'over' || answer.why) return answer
      await good.openCall({ ...call, payer: 'nobody' }, authorization, { now: at.now, until: at.until })
      return answer
    },
  })),
  broken(
    'exposure counts every call whose authorization can still move money, and no other',
    'counts failed calls',
    (good) => {
      const failed: Call[] = []
      return {
        async moveCall(id, from, patch) {
          const moved = await good.moveCall(id, from, patch)
          const call = moved && patch.workStatus === 'failed' ? await good.getCall(id) : undefined
          if (call) failed.push(call)
          return moved
        },
        async openCall(call, authorization, at) {
          const answer = await good.openCall(call, authorization, at)
          if (answer.kind !== 'over') return answer
          const more = failed.filter((each) => each.payer === call.payer).reduce((sum, each) => sum + each.quote, 0n)
          return { ...answer, sum: usdc(answer.sum + more) }
        },
      }
    },
  ),
  broken('exposure lets go of an authorization exactly at its end', 'holds it a millisecond longer', (good) => ({
    openCall: (call, authorization, at) => good.openCall(call, authorization, at.cap ? { ...at, now: at.now - 1 } : at),
  })),
  broken(
    'exposure counts the settlements that a balance may not show yet',
    'trusts a balance a millisecond too early',
    (good) => ({
      openCall: (call, authorization, { cap, ...at }) =>
        good.openCall(call, authorization, { ...at, ...(cap && { cap: { ...cap, asOf: cap.asOf + 1 } }) }),
    }),
  ),

  // ── moving ─────────────────────────────────────────────────────────────────────────────────────────────────────────
  broken('moveCall() is won once among twenty racers', 'compares first and sets later', (good) => ({
    async moveCall(id, from, patch) {
      const before = await good.getCall(id)
      await turn()
      const moved = await good.moveCall(id, from, patch)
      return moved || mayMove(before, from)
    },
  })),
  broken('moveCall() applies only from what its caller expects', 'ignores the owner', (good) => ({
    moveCall: (id, { workerId, ...from }, patch) => good.moveCall(id, from, patch),
  })),
  broken('a patch changes what it names, and nothing else', 'clears what is not named', (good) => ({
    moveCall: (id, from, patch) => good.moveCall(id, from, { startedAt: null, ...patch }),
  })),
  broken(
    "an unfinished call that is moved to another owner is that owner's alone",
    'renews for whoever opened it',
    (good) => {
      const openers = new Map<string, string>()
      return {
        openCall(call, authorization, at) {
          openers.set(call.id, call.workerId)
          return good.openCall(call, authorization, at)
        },
        async renew(owner, ids, until) {
          for (const id of ids)
            if (openers.get(id) === owner && ((await good.getCall(id))?.leaseExpiresAt ?? until) < until)
              await good.moveCall(id, { workStatus: ['queued', 'in_progress'] }, { leaseExpiresAt: until })
          return await good.renew(owner, ids, until)
        },
      }
    },
  ),
  broken(
    "an unfinished call that is moved to another owner is that owner's alone",
    'never writes the owner',
    (good) => ({
      moveCall: (id, from, { workerId: _, ...patch }) => good.moveCall(id, from, patch),
    }),
  ),
  broken(
    "renew() lengthens the promise of the calls that it is given, where they are unfinished and its owner's",
    'renews all that its owner has',
    (good) => ({
      async renew(owner, ids, until) {
        const mine = (await good.lostCalls(until - 1, 1_000)).filter((call) => call.workerId === owner)
        await good.renew(
          owner,
          mine.map(({ id }) => id),
          until,
        )
        return await good.renew(owner, ids, until)
      },
    }),
  ),
  broken('renew() answers with the calls that its owner may go on with', 'answers with what it was asked', (good) => ({
    async renew(owner, ids, until) {
      await good.renew(owner, ids, until)
      return ids
    },
  })),
  broken(
    'an owner takes back what was declared lost, while its authorization has served no other call',
    'leaves lost what was declared lost',
    (good) => ({
      async renew(owner, ids, until) {
        const calls = await Promise.all(ids.map((id) => good.getCall(id)))
        return await good.renew(
          owner,
          ids.filter((_, at) => calls[at]?.workStatus !== 'failed'),
          until,
        )
      },
    }),
  ),
  broken(
    'an owner takes back what was declared lost, while its authorization has served no other call',
    'takes back what another call was opened with',
    (good) => ({
      async renew(owner, ids, until) {
        const stored = await good.renew(owner, ids, until)
        const calls = await Promise.all(ids.map((id) => good.getCall(id)))
        const lost = calls.flatMap((call) =>
          call?.workerId === owner && call.error?.startsWith('The work was lost') ? [call.id] : [],
        )
        for (const id of lost)
          await good.moveCall(
            id,
            { workStatus: ['failed'] },
            { workStatus: 'in_progress', error: null, leaseExpiresAt: until },
          )
        return [...stored, ...lost]
      },
    }),
  ),
  broken(
    'claimSettlement() completes what was declared lost for its owner, and for nobody else',
    'tells nobody apart',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const call = await good.getCall(id)
        return await good.claimSettlement(id, authorization, {
          ...at,
          ...(at.workerId !== undefined && call && { workerId: call.workerId }),
        })
      },
    }),
  ),
  broken('while nobody could renew, only what was lost before is lost', 'looks at its own clock', (good) => ({
    openCall: (call, authorization, { lostBy: _, ...at }) => good.openCall(call, authorization, at),
  })),
  broken(
    'unfinishedCalls() lists what an owner has to do on a gateway, by id, however much others have to do',
    'looks among the first few calls of all owners',
    (good) => ({
      async unfinishedCalls(owner, { gateway, after, limit }) {
        const some = await good.lostCalls(Number.MAX_SAFE_INTEGER, 20)
        return some
          .filter((call) => call.workerId === owner && call.gateway === gateway && call.id > after)
          .toSorted((one, other) => (one.id < other.id ? -1 : 1))
          .slice(0, limit)
      },
    }),
  ),
  broken('lostCalls() lists unfinished calls past their promise, longest first', 'lists the newest first', (good) => ({
    lostCalls: async (now, limit) =>
      (await good.lostCalls(now, 1_000))
        .toSorted((one, other) => other.leaseExpiresAt - one.leaseExpiresAt)
        .slice(0, limit),
  })),

  broken(
    'calls that are due at the same moment are listed in the order of their ids',
    'lists them as they were opened',
    (good) => {
      const opened: string[] = []
      const positionOf = ({ id }: Call) => opened.indexOf(id)
      return {
        openCall(call, authorization, at) {
          opened.push(call.id)
          return good.openCall(call, authorization, at)
        },
        async lostCalls(now, limit) {
          const lost = await good.lostCalls(now, 1_000)
          return lost
            .toSorted((one, other) => one.leaseExpiresAt - other.leaseExpiresAt || positionOf(one) - positionOf(other))
            .slice(0, limit)
        },
      }
    },
  ),
  broken(
    'calls that are due at the same moment are listed in the order of their ids',
    'lists settlements as they were claimed',
    (good) => {
      const ends = new Map<string, number>()
      const positions = new Map<string, number>()
      const of = (among: ReadonlyMap<string, number>, { id }: Call) => among.get(id) ?? 0
      return {
        claimSettlement(id, authorization, at) {
          positions.set(id, positions.size)
          ends.set(id, at.until)
          return good.claimSettlement(id, authorization, at)
        },
        async unsettled(before, limit, gateway) {
          const due = await good.unsettled(before, 1_000, gateway)
          return due
            .toSorted((one, other) => of(ends, one) - of(ends, other) || of(positions, one) - of(positions, other))
            .slice(0, limit)
        },
      }
    },
  ),

  // ── claiming ───────────────────────────────────────────────────────────────────────────────────────────────────────
  broken('claimSettlement() gives one winner among twenty racers', 'looks first and claims later', (good) => {
    let inFlight = 0
    return {
      async claimSettlement(id, authorization, at) {
        inFlight++
        const claim = await good.claimSettlement(id, authorization, at)
        await turn()
        const isRace = inFlight-- > 1
        return isRace && claim.kind === 'taken' ? { kind: 'yours', token: 1 } : claim
      },
    }
  }),
  broken('a claim lasts exactly until its end', 'ends it a millisecond early', (good) => ({
    claimSettlement: (id, authorization, at) =>
      good.claimSettlement(id, authorization, authorization ? at : { ...at, now: at.now + 1 }),
  })),
  broken(
    'claimSettlement() stores the result in the same step, and only the first',
    'keeps the last result',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (at.result)
          await good.moveCall(
            id,
            { workStatus: ['completed'] },
            { result: at.result.result, expiresAt: at.result.expiresAt },
          )
        return claim
      },
    }),
  ),
  broken(
    'claimSettlement() finds nothing to settle where there is no result',
    'settles before the work is done',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        const isWorking = claim.kind === 'nothing' && (await good.getCall(id))?.workStatus === 'in_progress'
        return isWorking ? { kind: 'yours', token: 1 } : claim
      },
    }),
  ),
  broken(
    'an authorization that opened a call pays for no other',
    'spends what another call was opened with',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (!authorization || claim.kind !== 'replayed' || claim.call.authorization !== authorization.key) return claim
        return good.claimSettlement(id, disguised(authorization, id), at)
      },
    }),
  ),
  broken('an authorization claimed for a call opens no other', 'looks among the originals only', (good) => ({
    async openCall(call, authorization, at) {
      const answer = await good.openCall(call, authorization, at)
      if (answer.kind !== 'replayed' || answer.call.authorization === authorization.key) return answer
      return good.openCall(call, disguised(authorization, call.id), at)
    },
  })),
  broken(
    'an authorization offered for two jobs at once pays for one',
    'does not see what another job was paid with',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (!authorization || claim.kind !== 'replayed' || claim.call.authorization === authorization.key) return claim
        return good.claimSettlement(id, disguised(authorization, id), at)
      },
    }),
  ),
  broken(
    'claimSettlement() takes over an authorization that its call has no more use for',
    'never lets go of one',
    (good) => {
      const openers = openersOf(good)
      return {
        openCall: openers.openCall,
        async claimSettlement(id, authorization, at) {
          const last = authorization && (await openers.last(authorization.key))
          return last?.workStatus === 'failed' && last.id !== id
            ? { kind: 'replayed', call: last }
            : good.claimSettlement(id, authorization, at)
        },
      }
    },
  ),
  broken(
    'every earlier authorization is proven dead before another is spent',
    'prefers the one that is offered',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        return claim.kind === 'retry' && !claim.sent && authorization ? { kind: 'yours', token: claim.token } : claim
      },
    }),
  ),
  broken('a dead authorization is never handed out again', 'hands out whatever is offered', (good) => ({
    async claimSettlement(id, authorization, at) {
      const claim = await good.claimSettlement(id, authorization, at)
      const isDone = claim.kind === 'nothing' && authorization && (await good.getCall(id))?.workStatus === 'completed'
      return isDone ? { kind: 'yours', token: 1 } : claim
    },
  })),
  broken(
    'an authorization that was over when it was claimed does not count as sent, until someone says that it may have been',
    'counts every claim as a sending',
    (good) => {
      const handedOut = new Set<string>()
      return {
        async claimSettlement(id, authorization, at) {
          const claim = await good.claimSettlement(id, authorization, at)
          if (claim.kind === 'yours' && authorization && authorization.expiresAt <= at.now)
            handedOut.add(authorization.key)
          return claim.kind === 'retry' && handedOut.has(claim.authorization.key) ? { ...claim, sent: true } : claim
        },
      }
    },
  ),
  broken(
    'an expired lease hands over the earlier authorization, which may have been sent',
    'takes a silent claim for an unsent one',
    (good) => {
      const claims = claimsOf(good)
      return {
        finishSettlement: claims.finishSettlement,
        async claimSettlement(id, authorization, at) {
          const isSilent = claims.open.has(id)
          const claim = await claims.claimSettlement(id, authorization, at)
          return isSilent && claim.kind === 'retry' ? { ...claim, sent: false } : claim
        },
      }
    },
  ),
  broken('tokens only grow', 'counts them down', (good) => ({
    async claimSettlement(id, authorization, at) {
      const claim = await good.claimSettlement(id, authorization, at)
      return claim.kind === 'yours' || claim.kind === 'retry' ? { ...claim, token: 1_000 - claim.token } : claim
    },
    finishSettlement: (id, token, outcome, at) => good.finishSettlement(id, 1_000 - token, outcome, at),
  })),

  // ── finishing ──────────────────────────────────────────────────────────────────────────────────────────────────────
  broken('only the current token ends a claim', 'believes any token that says dead', (good) => {
    const claims = claimsOf(good)
    return {
      claimSettlement: claims.claimSettlement,
      finishSettlement: (id, token, outcome, at) =>
        claims.finishSettlement(id, outcome.kind === 'dead' ? (claims.open.get(id) ?? token) : token, outcome, at),
    }
  }),
  broken('the token of an ended claim is stale', 'says yes twice', (good) => {
    const accepted = new Set<string>()
    return {
      async finishSettlement(id, token, outcome, at) {
        const isTrue = await good.finishSettlement(id, token, outcome, at)
        const isSettled = (await good.getCall(id))?.paymentStatus === 'settled'
        if (isTrue) accepted.add(`${id} ${token}`)
        return isTrue || (!isSettled && accepted.has(`${id} ${token}`))
      },
    }
  }),
  broken('a payment is recorded whatever the token says', 'wants the token for it', (good) => {
    const claims = claimsOf(good)
    return {
      claimSettlement: claims.claimSettlement,
      async finishSettlement(id, token, outcome, at) {
        const current = claims.open.get(id)
        return current !== undefined && current !== token ? false : claims.finishSettlement(id, token, outcome, at)
      },
    }
  }),
  broken('a settled call stays settled, with its first receipt', 'keeps the last receipt', (good) => {
    const receipts = new Map<string, Receipt>()
    return {
      finishSettlement(id, token, outcome, at) {
        if (outcome.kind === 'paid') receipts.set(id, outcome.receipt)
        return good.finishSettlement(id, token, outcome, at)
      },
      async getCall(id) {
        const found = await good.getCall(id)
        return found && { ...found, receipt: receipts.get(id) ?? found.receipt }
      },
    }
  }),
  broken('the end of a claim moves the end of the shelf life where told', 'leaves it where it was', (good) => ({
    finishSettlement: (id, token, outcome, { expiresAt, ...at }) => good.finishSettlement(id, token, outcome, at),
  })),
  broken('a refused original stays with its call, unsent', 'takes it for sent', (good) => {
    const handedOut = new Set<string>()
    return {
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (!authorization || claim.kind !== 'yours') return claim
        const again = handedOut.has(authorization.key)
        handedOut.add(authorization.key)
        return again ? { kind: 'retry', token: claim.token, authorization, sent: true } : claim
      },
    }
  }),
  broken('a refused later authorization is freed', 'keeps it for ever', (good) => {
    const stored = new Map<string, string>()
    return {
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (authorization && claim.kind === 'yours') stored.set(authorization.key, id)
        return claim
      },
      async callOf(key, now) {
        const id = stored.get(key)
        return (await good.callOf(key, now)) ?? (id === undefined ? undefined : await good.getCall(id))
      },
    }
  }),
  broken('a refusal frees nothing that may have been sent before', 'takes a refusal for death', (good) => {
    const sent = new Set<string>()
    return {
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (claim.kind === 'retry' && claim.sent) sent.add(`${id} ${claim.token}`)
        return claim
      },
      finishSettlement(id, token, outcome, at) {
        const isDeath = outcome.kind === 'refused' && sent.has(`${id} ${token}`)
        return good.finishSettlement(id, token, isDeath ? { kind: 'dead' } : outcome, at)
      },
    }
  }),
  broken('an unknown outcome is due for another look at once', 'lets the lease run out first', (good) => {
    const ends = new Map<string, number>()
    return {
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (claim.kind === 'yours' || claim.kind === 'retry') ends.set(id, at.until)
        return claim
      },
      unsettled: async (...args) => (await good.unsettled(...args)).filter(({ id }) => (ends.get(id) ?? 0) <= args[0]),
    }
  }),
  broken('unsettled() lists claims that ran out, longest first', 'lists the newest first', (good) => {
    const ends = new Map<string, number>()
    const endOf = ({ id }: Call) => ends.get(id) ?? 0
    return {
      claimSettlement(id, authorization, at) {
        ends.set(id, at.until)
        return good.claimSettlement(id, authorization, at)
      },
      unsettled: async (before, limit, gateway) =>
        (await good.unsettled(before, 1_000, gateway))
          .toSorted((one, other) => endOf(other) - endOf(one))
          .slice(0, limit),
    }
  }),
  broken('unsettled() of one gateway is not crowded out by those of another', 'looks at the oldest of all', (good) => ({
    unsettled: async (before, limit, gateway) =>
      (await good.unsettled(before, limit)).filter((call) => (gateway ?? call.gateway) === call.gateway),
  })),
  broken('an unresolved call is left to people, and may still settle', 'goes on asking about it', (good) => {
    const unresolved = new Set<string>()
    return {
      finishSettlement(id, token, outcome, at) {
        if (outcome.kind === 'unresolved') unresolved.add(id)
        return good.finishSettlement(id, token, outcome, at)
      },
      async unsettled(...args) {
        const more = await Promise.all([...unresolved].map((id) => good.getCall(id)))
        return [
          ...(await good.unsettled(...args)),
          ...more.filter((call) => call?.paymentStatus === 'unresolved'),
        ] as Call[]
      },
    }
  }),

  // ── owned records ──────────────────────────────────────────────────────────────────────────────────────────────────
  broken('putRecord() gives one winner among twenty racers', 'looks first and inserts later', (good) => ({
    async putRecord(record, now) {
      if (await good.getRecord(record.kind, record.id, now)) return false
      await turn()
      await good.putRecord(record, now)
      return true
    },
  })),
  broken('a record lives exactly until its end, and then makes room', 'waits a millisecond longer', (good) => ({
    getRecord: (kind, id, now) => good.getRecord(kind, id, now - 1),
  })),
  broken('a record comes back as it was given, and nobody holds it', 'joins kind and id without a seam', (good) => {
    const merged = (record: StoredRecord): StoredRecord => ({
      ...record,
      kind: '',
      id: `${record.kind}${record.id}`,
      data: { kind: record.kind, id: record.id, data: record.data },
    })
    const apart = (record: StoredRecord) => ({
      ...record,
      ...(record.data as Pick<StoredRecord, 'kind' | 'id' | 'data'>),
    })
    return {
      putRecord: (record, now) => good.putRecord(merged(record), now),
      moveRecord: (record, from, now) => good.moveRecord(merged(record), merged({ ...record, data: from }).data, now),
      recordPaid(call, authorization, { paid, ...at }) {
        const { record, from } = paid.spent
        const spent = { record: merged(record), from: merged({ ...record, data: from }).data }
        return good.recordPaid(call, authorization, { ...at, paid: { ...paid, spent } })
      },
      async getRecord(kind, id, now) {
        const found = await good.getRecord('', `${kind}${id}`, now)
        return found && { ...apart(found), kind, id }
      },
      async listRecords(kind, owner, { now, after = '', limit }) {
        const found = (await good.listRecords('', owner, { now, limit: 1_000 })).map(apart)
        return found.filter((record) => record.kind === kind && record.id > after).slice(0, limit)
      },
    }
  }),
  broken('moveRecord() is won once among twenty racers', 'compares first and writes later', (good) => ({
    async moveRecord(record, from, now) {
      const seen = await good.getRecord(record.kind, record.id, now)
      await turn()
      const stored = await good.getRecord(record.kind, record.id, now)
      return (
        stored !== undefined && mayMoveRecord(seen, { record, from, now }) && good.moveRecord(record, stored.data, now)
      )
    },
  })),
  broken(
    'moveRecord() applies only to what its caller has seen, and may name another owner',
    'keeps the owner that it had',
    (good) => ({
      async moveRecord(record, from, now) {
        const stored = await good.getRecord(record.kind, record.id, now)
        return good.moveRecord({ ...record, owner: stored?.owner ?? record.owner }, from, now)
      },
    }),
  ),
  broken(
    'listRecords() lists the living records of a kind and owner, and no others',
    'lists a millisecond past the end',
    (good) => ({
      listRecords: (kind, owner, { now, ...at }) => good.listRecords(kind, owner, { now: now - 1, ...at }),
    }),
  ),
  broken('listRecords() pages through all records by id, whatever moves meanwhile', 'pages by number', (good) => ({
    async listRecords(kind, owner, { after = '', limit, ...at }) {
      const all = await good.listRecords(kind, owner, { ...at, limit: 1_000 })
      const from = after === '' ? 0 : limit
      return all.slice(from, from + limit)
    },
  })),

  // ── upkeep ─────────────────────────────────────────────────────────────────────────────────────────────────────────
  broken(
    'two handles on one database agree',
    'reads its own cache until it writes itself',
    (good) => {
      const cache = new Map<string, Call | undefined>()
      const forgetting =
        <A extends unknown[], R>(verb: (...args: A) => R) =>
        (...args: A): R => {
          cache.clear()
          return verb(...args)
        }
      return {
        async getCall(id) {
          if (!cache.has(id)) cache.set(id, await good.getCall(id))
          return structuredClone(cache.get(id))
        },
        openCall: forgetting(good.openCall),
        moveCall: forgetting(good.moveCall),
        renew: forgetting(good.renew),
        claimSettlement: forgetting(good.claimSettlement),
        finishSettlement: forgetting(good.finishSettlement),
        prune: forgetting(good.prune),
      }
    },
    { perHandle: true },
  ),
  broken('a lease has one owner, exactly until its end', 'ends it a millisecond early', (good) => ({
    lease: (name, owner, at) => good.lease(name, owner, { ...at, now: at.now + 1 }),
  })),
  broken('a rate window grants its limit and no more, until it resets', 'grants all or nothing', (good) => ({
    async hit(bucket, take, now) {
      const { granted, resetAt } = await good.hit(bucket, take, now)
      return { granted: granted < take ? 0 : granted, resetAt }
    },
  })),
  broken(
    'a rate limit that several processes share grants its number, and at most a twentieth more for each',
    'loses a permit of every longer block',
    (good) => ({
      async hit(bucket, take, now) {
        const { granted, resetAt } = await good.hit(bucket, take > 3 ? take + 1 : take, now)
        return { granted: Math.min(take, granted), resetAt }
      },
    }),
  ),
  broken('prune() deletes nothing alive', 'is a millisecond early', (good) => ({
    prune: (now) => good.prune(now + 1),
  })),
  broken('prune() empties settled calls, and forgets those that can no longer be paid', 'forgets no call', (good) => {
    let prunedAt = 0
    return {
      async prune(now) {
        prunedAt = Math.max(prunedAt, now)
        return 0
      },
      // The sums by hour that it forgets are another law.
      callTotals: async (query) =>
        query.unit === 'hour' && prunedAt > T + 60 * 86_400_000 ? [] : await good.callTotals(query),
      async pruneLedger(before, now) {
        await good.prune(now)
        return await good.pruneLedger(before, now)
      },
      async ledgerRows(before, now, limit) {
        await good.prune(now)
        return await good.ledgerRows(before, now, limit)
      },
    }
  }),
  broken(
    'a settled call that was emptied still refuses its authorization',
    'knows authorizations by their requests',
    (good) => ({
      async callOf(key, now) {
        const found = await good.callOf(key, now)
        return found?.request === null ? undefined : found
      },
    }),
  ),

  // ── spending ───────────────────────────────────────────────────────────────────────────────────────────────────────
  broken(
    'claimSettlement() keeps how many tokens the result took, of the first result only',
    'keeps the last count',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        if (at.result?.usage) await good.moveCall(id, { workStatus: ['completed'] }, { usage: at.result.usage })
        return claim
      },
    }),
  ),
  broken(
    'claimSettlement() keeps what is charged with the first result, and says it to every later claim',
    'charges what the last attempt says',
    (good) => ({
      async claimSettlement(id, authorization, at) {
        const claim = await good.claimSettlement(id, authorization, at)
        const charge = at.result?.charge
        if (charge !== undefined) await good.moveCall(id, { workStatus: ['completed'] }, { charge })
        return charge !== undefined && claim.kind === 'retry' ? { ...claim, charge } : claim
      },
    }),
  ),
  broken(
    'spendByModel() sums what was settled, and nothing else',
    'counts what people still have to look at',
    (good) => {
      let unresolved = 0
      return {
        finishSettlement(id, token, outcome, at) {
          if (outcome.kind === 'unresolved') unresolved++
          return good.finishSettlement(id, token, outcome, at)
        },
        ...spendChanged(good, (spend) => ({ ...spend, calls: spend.calls + unresolved })),
      }
    },
  ),
  broken(
    'spendByModel() sums what the receipts say, exactly, and the quote where one does not say it in base units',
    'sums in doubles',
    (good) => spendChanged(good, (spend) => ({ ...spend, spent: usdc(BigInt(Number(spend.spent))) })),
  ),
  broken(
    'spendByModel() sums what the receipts say, exactly, and the quote where one does not say it in base units',
    'takes what does not read as an amount for nothing',
    (good) => ({
      finishSettlement(id, token, outcome, at) {
        if (outcome.kind !== 'paid' || parseAtomic(outcome.receipt.amount) !== undefined)
          return good.finishSettlement(id, token, outcome, at)
        return good.finishSettlement(id, token, { kind: 'paid', receipt: { ...outcome.receipt, amount: '0' } }, at)
      },
    }),
  ),
  broken('spendByModel() begins exactly at the time that it is given', 'begins a millisecond later', (good) => ({
    async spendByModel(payer, since) {
      const spends = await good.spendByModel(payer, since)
      return spends.some(({ lastAt }) => lastAt > since + 60_000) ? good.spendByModel(payer, since + 1) : spends
    },
  })),
  broken(
    'spendByModel() keeps gateways, endpoints, models and assets apart, dearest first, then by name',
    'takes no model for an empty name',
    (good) => spendChanged(good, (spend) => ({ ...spend, model: spend.model ?? '' })),
  ),
  broken(
    'spendByModel() knows a wallet by the spelling in which it is stored',
    'asks for lower case as well',
    (good) => ({
      async spendByModel(payer, since) {
        const spends = await good.spendByModel(payer, since)
        return spends.length > 0 ? spends : good.spendByModel(payer.toLowerCase().replace('0X', '0x'), since)
      },
    }),
  ),
  broken(
    'archiveCalls() deletes paid calls whose result is gone, once, and what they paid is still counted',
    'forgets what they paid',
    (good) => ({
      async archiveCalls(ids) {
        const now = 1_900_000_000_000
        return ids.includes('fresh') ? await good.pruneLedger(now, now) : 0
      },
    }),
  ),
  broken('pruneLedger() deletes emptied calls that settled long ago, and nothing else', 'deletes nothing', () => ({
    pruneLedger: async () => 0,
  })),
  broken('what was spent, and for how many tokens, survives prune()', 'empties too much', (good) => {
    let isPruned = false
    return {
      prune(now) {
        isPruned = true
        return good.prune(now)
      },
      ...spendChanged(good, (spend) => (isPruned ? { ...spend, inputTokens: 0, outputTokens: 0 } : spend)),
    }
  }),
  ...brokenPrepaid,
  ...brokenListings,
]

/** Changes what a good storage says of each sum. */
function spendChanged(good: Storage, change: (spend: Spend) => Spend): Partial<Storage> {
  return { spendByModel: async (payer, since) => (await good.spendByModel(payer, since)).map(change) }
}

/**
 * Takes its arguments by value, so that a defect that waits before it reads them has only the defect that it is there
 * for.
 */
function copying(storage: Storage): Storage {
  return {
    ...storage,
    openCall: (...given) => storage.openCall(...structuredClone(given)),
    moveCall: (...given) => storage.moveCall(...structuredClone(given)),
    claimSettlement: (...given) => storage.claimSettlement(...structuredClone(given)),
    putRecord: (...given) => storage.putRecord(...structuredClone(given)),
    moveRecord: (...given) => storage.moveRecord(...structuredClone(given)),
  }
}

/** The same authorization under a key that nobody knows: how a defect gets past a good storage. */
function disguised(authorization: Authorization, as: string): Authorization {
  return { ...authorization, key: `${authorization.key} disguised as ${as}` }
}

/** Remembers which call each authorization opened last. */
function openersOf(good: Storage) {
  const openers = new Map<string, string>()
  return {
    async last(key: string): Promise<Call | undefined> {
      const id = openers.get(key)
      return id === undefined ? undefined : good.getCall(id)
    },
    openCall: (async (call, authorization, at) => {
      const answer = await good.openCall(call, authorization, at)
      if (answer.kind === 'opened') openers.set(authorization.key, call.id)
      return answer
    }) satisfies Storage['openCall'],
  }
}

/** Remembers the token of each claim that has not ended. */
function claimsOf(good: Storage) {
  const open = new Map<string, number>()
  return {
    open,
    claimSettlement: (async (id, authorization, at) => {
      const claim = await good.claimSettlement(id, authorization, at)
      if (claim.kind === 'yours' || claim.kind === 'retry') open.set(id, claim.token)
      return claim
    }) satisfies Storage['claimSettlement'],
    finishSettlement: (async (id, token, outcome, at) => {
      const isTrue = await good.finishSettlement(id, token, outcome, at)
      if (isTrue) open.delete(id)
      return isTrue
    }) satisfies Storage['finishSettlement'],
  }
}

/** Lets everybody else who is ready run first. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
