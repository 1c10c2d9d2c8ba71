/**
 * Programs that only the bench compares with: `bun install --cwd test/bench/peers`. They are resolved from this folder.
 */
export const PEERS = import.meta.dir
