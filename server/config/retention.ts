/** The `[retention]` table: how long results, ledger rows and media are kept. */
import { type Static, Type } from '@sinclair/typebox'
import { type Retention, retention as usual } from '../../core/mod.ts'
import { defaulted, setting } from '../../adapters/settings.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** A year in hours, ten years in days. */
const MAX_HOURS = 8_760
const MAX_DAYS = 3_650
/** The spend of a wallet is reported for 30 days (contract 18.2). */
const MIN_LEDGER_DAYS = 31

/** The `[retention]` table. */
export const RetentionTable = Type.Object(
  {
    unclaimed_hours: defaulted(
      'How long an unpaid result can be collected, in hours.',
      Type.Integer({ minimum: 1, maximum: MAX_HOURS, default: usual.unclaimedMs / HOUR_MS }),
    ),
    settled_days: defaulted(
      'How long a paid result can be read again, in days. Products that keep less, such as chat (one day) and forwarded data (one hour), keep no more than this.',
      Type.Integer({ minimum: 1, maximum: MAX_DAYS, default: usual.settledMs / DAY_MS }),
    ),
    background_hours: defaulted(
      'How long a paid background response can be read, in hours.',
      Type.Integer({ minimum: 1, maximum: MAX_HOURS, default: usual.backgroundMs / HOUR_MS }),
    ),
    ledger_days: setting(
      'How long the ledger row of a paid call is kept, in days. At least `settled_days`. A wallet whose rows are all gone counts as new.',
      Type.Integer({ minimum: MIN_LEDGER_DAYS, maximum: MAX_DAYS }),
      { usual: 'for ever' },
    ),
    archive_days: setting(
      'After how many days the ledger row of a paid call moves from the database to the archive. At least `settled_days`.',
      Type.Integer({ minimum: MIN_LEDGER_DAYS, maximum: MAX_DAYS }),
      { usual: 'never' },
    ),
    archive_store: setting(
      'Where archived ledger rows are stored: `file:<dir>` or `s3://bucket/prefix?…`. Never the object store, whose files are served.',
      Type.String({ pattern: '^(file:.+|s3://.+)$' }),
      { usual: '`file:.farebox/archive`' },
    ),
    media_days: setting(
      'How long images, clips and sounds of a paid call are kept, in days. At least `settled_days`. Media of an unpaid call is deleted with the call.',
      Type.Integer({ minimum: 1, maximum: MAX_DAYS }),
      { usual: 'for ever' },
    ),
  },
  { additionalProperties: false, default: {}, usual: '48 hours unpaid, 30 days paid' },
)

/** The lifetimes. Adds mistakes by name: data must not be deleted before the results that show it. */
export function resolveRetention(table: Static<typeof RetentionTable>, mistakes: string[]): Retention {
  const { unclaimed_hours, settled_days, background_hours, ledger_days, archive_days, media_days } = table
  for (const [name, days] of Object.entries({ ledger_days, archive_days, media_days })) {
    if (days !== undefined && days < settled_days)
      mistakes.push(`retention.${name}: must be at least retention.settled_days, which is ${settled_days}, got ${days}`)
  }
  return {
    unclaimedMs: unclaimed_hours * HOUR_MS,
    settledMs: settled_days * DAY_MS,
    backgroundMs: background_hours * HOUR_MS,
    ...(ledger_days !== undefined && { ledgerMs: ledger_days * DAY_MS }),
    ...(archive_days !== undefined && { archiveMs: archive_days * DAY_MS }),
    ...(media_days !== undefined && { mediaMs: media_days * DAY_MS }),
  }
}
