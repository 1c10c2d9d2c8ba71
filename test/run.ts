/**
 * `bun run test`: types, lint, then every test. `bun run test core server/app` runs the test files whose path contains one of these.
 * Ends with the time of each step and the line `N passed, N failed`; types and lint count as one each.
 */
import { join } from 'node:path'

type Step = { readonly name: string; readonly command: readonly string[] }
type Count = { readonly passed: number; readonly failed: number; readonly skipped: number }
type Ended = Count & { readonly name: string; readonly ms: number }

const ROOT = join(import.meta.dirname, '..')
const tool = (path: string, ...args: readonly string[]) => [process.execPath, join(ROOT, 'node_modules', path), ...args]

const steps: readonly Step[] = [
  { name: 'types', command: tool('typescript/bin/tsc', '-p', '.') },
  { name: 'types of core, without Bun', command: tool('typescript/bin/tsc', '-p', 'core') },
  { name: 'types of the package, without Bun', command: tool('typescript/bin/tsc', '-p', 'adapters') },
  { name: 'lint', command: tool('oxlint/bin/oxlint', '--deny-warnings', '--format=unix') },
  // Each of the two keeps what it has loaded and compiled from file to file, as a plain `bun test` does.
  { name: 'tests', command: [process.execPath, 'test', '--parallel=2', '--no-isolate', ...process.argv.slice(2)] },
]

async function run({ name, command }: Step): Promise<Ended> {
  const started = performance.now()
  console.log(`── ${name}`)
  const env = { ...process.env, ...(process.stdout.isTTY && { FORCE_COLOR: '1' }) }
  const child = Bun.spawn([...command], { cwd: ROOT, env, stdout: 'pipe', stderr: 'pipe' })
  const [code, out, errors] = await Promise.all([child.exited, pass(child.stdout, process.stdout), pass(child.stderr, process.stderr)])
  const count = name === 'tests' ? read(Bun.stripANSI(out + errors)) : { passed: 0, failed: 0, skipped: 0 }
  return { name, ms: performance.now() - started, ...judge(count, code) }
}

/** Hands text on as it comes, and keeps it. */
async function pass(from: ReadableStream<Uint8Array>, to: NodeJS.WriteStream): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of from) {
    to.write(chunk)
    text += decoder.decode(chunk, { stream: true })
  }
  return text
}

/** The summary of `bun test`: ` 12 pass`, ` 0 fail`; errors between tests are among those that fail. */
function read(text: string): Count {
  const last = (word: string) => Number(text.match(new RegExp(`^ *\\d+ ${word}$`, 'gm'))?.at(-1)?.match(/\d+/)?.[0] ?? 0)
  return { passed: last('pass'), failed: last('fail'), skipped: last('skip') }
}

/** A step that counts nothing counts as one; one that ends badly has failed at least once. */
function judge(count: Count, code: number): Count {
  if (code !== 0) return { ...count, failed: Math.max(1, count.failed) }
  return count.passed + count.failed === 0 ? { ...count, passed: 1 } : count
}

const ended: Ended[] = []
for (const step of steps) ended.push(await run(step))

console.log('')
for (const { name, ms, failed } of ended) console.log(`${failed === 0 ? 'ok  ' : 'FAIL'} ${(ms / 1000).toFixed(1).padStart(5)} s  ${name}`)
const total = (key: keyof Count): number => ended.reduce((sum, step) => sum + step[key], 0)
if (total('skipped') > 0) console.log(`${total('skipped')} skipped`)
console.log(`${total('passed')} passed, ${total('failed')} failed`)
process.exitCode = total('failed') === 0 ? 0 : 1
