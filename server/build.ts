/**
 * `bun run build`: builds the package `farebox` into dist/, ready for `npm publish dist`.
 * `bun run build -- --binary FILE`: builds the gateway as one executable for this machine.
 * `bun run build -- --release FOLDER [PLATFORM …]`: an archive for each platform, with checksums and what is in it.
 */
import { join } from 'node:path'
import manifest from '../package.json' with { type: 'json' }
import { compileBinary } from './release/binary.ts'
import { buildPackage } from './release/package.ts'
import { buildRelease, platformsOf } from './release/release.ts'

const ROOT = join(import.meta.dirname, '..')

const startedAt = performance.now()
const [option, out = join(ROOT, 'dist'), ...names] = process.argv.slice(2)
if (option === undefined) await buildPackage(out)
else if (option === '--binary' && process.argv.length === 4) await compileBinary(out)
else if (option === '--release' && process.argv.length >= 4) await buildRelease(out, platformsOf(names))
else throw new Error('usage: bun run build [-- --binary FILE | --release FOLDER [PLATFORM …]]')
console.log(`built farebox ${manifest.version} into ${out} in ${Math.round(performance.now() - startedAt)} ms`)
