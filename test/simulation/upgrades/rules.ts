/** The rules of upgrades, each switched off by what a version brings: the model must miss every one. */
import type { Call } from '../../../core/ports/mod.ts'
import type { LawName } from '../ledger.ts'
import type { Rule } from '../setup.ts'
import type { Fleets, Migrating } from './fleet.ts'

type UpgradeRule = Migrating & {
  readonly name: string
  /** Where replicas of several versions run side by side. */
  readonly isShared?: boolean
  /** A campaign that misses it soon. */
  readonly seed?: number
  readonly breaks?: readonly LawName[]
}

export const UPGRADES: UpgradeRule = { name: 'upgrades, as built' }

export const onFleets = (
  fleets: Fleets,
  { name, breaks, isShared: _, seed: _seed, ...migrating }: UpgradeRule,
): Rule => ({
  name,
  ...(breaks && { breaks }),
  fleet: () => fleets.fresh(migrating),
})

/** This version and the next one read calls that the last one has opened in another way. */
const misread = (change: (call: Call) => Call): Pick<UpgradeRule, 'storages'> => ({
  storages() {
    const earlier = new Set<string>()
    const read = (call: Call | undefined) => (call && earlier.has(call.id) ? change(call) : call)
    return (good, version) => {
      if (version === 'last')
        return { ...good, openCall: (call, ...rest) => (earlier.add(call.id), good.openCall(call, ...rest)) }
      return {
        ...good,
        getCall: async (id) => read(await good.getCall(id)),
        callOf: async (key, now) => read(await good.callOf(key, now)),
      }
    }
  },
})

export const upgradeFlags: readonly (UpgradeRule & Required<Pick<UpgradeRule, 'breaks'>>)[] = [
  {
    name: 'a version that would miscount refuses a newer database',
    seed: 4,
    breaks: ['sums'],
    migrations: (steps) => steps.map((step) => ({ ...step, suitsOlder: true })),
  },
  {
    name: 'a migration is undone where its process is killed',
    seed: 51,
    breaks: ['sums', 'nothingStuck'],
    isTorn: true,
  },
  {
    name: 'a migration keeps the sums of earlier versions',
    seed: 4,
    breaks: ['sums'],
    migrations: (steps) => changed(steps, 'DELETE FROM spend_totals'),
  },
  {
    name: 'a migration keeps what was signed for earlier calls',
    seed: 6,
    breaks: ['onePayment', 'oneCall', 'moneyHasResult', 'noSecondSignature', 'nothingStuck', 'exposure', 'trueLedger'],
    migrations: (steps) => changed(steps, 'DELETE FROM authorizations'),
  },
  {
    name: 'a new version reads the results of an earlier one',
    seed: 2,
    breaks: ['nothingStuck', 'moneyHasResult'],
    ...misread((call) => ({ ...call, result: null })),
  },
  {
    name: 'a replica writes nothing in a database that takes a newer version',
    breaks: ['olderStops'],
    isShared: true,
    next: `
      CREATE FUNCTION suits_older() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.min_reader := 1; RETURN NEW; END $$;
      CREATE TRIGGER suits_older BEFORE INSERT ON migrations FOR EACH ROW EXECUTE FUNCTION suits_older();`,
  },
]

/** The same steps, the last of which does something more. */
function changed<Step extends { readonly sql: string }>(steps: readonly Step[], sql: string): readonly Step[] {
  return steps.map((step, at) => (at === steps.length - 1 ? { ...step, sql: `${step.sql};${sql};` } : step))
}
