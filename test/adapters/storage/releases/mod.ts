/** What of a release is kept to be run beside later versions. */
export { postgresStorage } from '../../../../adapters/storage/postgres/mod.ts'
export { sqliteStorage } from '../../../../adapters/storage/sqlite/mod.ts'
