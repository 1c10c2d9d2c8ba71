/**
 * Deno, Postgres and the auditor of the ecosystem, which only full tests run: `bun install --cwd test/programs`. They
 * are resolved from this folder.
 */
export const PROGRAMS = import.meta.url
