/** The part of a release that is kept, to be run beside later versions. */
export { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
export { sqliteStorage } from '../../../../adapters/storage/sqlite/mod.ts'
