/**
 * Adapters for a Cloudflare Worker, or another program on workerd: everything is in the database of one Durable Object
 * (decision 122).
 */
import type { Objects, Storage } from '../core/mod.ts'
import { sqliteObjects } from './objects/sqlite.ts'
import { type DurableObjectStorage, durableObjectDriver } from './storage/sqlite/durable_object.ts'
import { sqliteStorage } from './storage/sqlite/mod.ts'

/**
 * The ledger in the SQLite database of a Durable Object: `ctx.storage` of a class that is declared with
 * `new_sqlite_classes`. One object serves one gateway, as one process serves one SQLite file.
 *
 * @example
 * const storage = durableObjectLedger(ctx.storage)
 */
export const durableObjectLedger = (storage: DurableObjectStorage): Storage =>
  sqliteStorage(durableObjectDriver(storage))

/**
 * Media in the same database, in parts of a megabyte.
 *
 * @example
 * const objects = durableObjectMedia(ctx.storage)
 */
export const durableObjectMedia = (storage: DurableObjectStorage): Objects =>
  sqliteObjects(durableObjectDriver(storage))
