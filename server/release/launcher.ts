/**
 * The command `farebox` of the package, for Node 20 and later: it starts the server, which is written for Bun, on the
 * Bun that npm installed for this platform (decision 125). Everything else is handed through: arguments, input, output,
 * signals, and the way it ended.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

/** The Bun that this version was built and tested with. */
const BUN_VERSION = '1.4.4'

const require = createRequire(import.meta.url)

/** Packages with Bun for this platform, the likelier first: npm leaves out those of another C library. */
function bunPackages(): readonly string[] {
  const cpu = process.arch === 'arm64' ? 'aarch64' : process.arch
  const name = `@oven/bun-${process.platform === 'win32' ? 'windows' : process.platform}-${cpu}`
  return process.platform === 'linux' ? [name, `${name}-musl`] : [name]
}

/** A Bun that starts: of a package, else on PATH. */
function findBun(): string | undefined {
  if (process.versions.bun === BUN_VERSION) return process.execPath
  const file = process.platform === 'win32' ? 'bun.exe' : 'bun'
  const installed = bunPackages().flatMap((name) => {
    try {
      return [require.resolve(`${name}/bin/${file}`)]
    } catch {
      return []
    }
  })
  return [...installed, file].find((path) => {
    const { stdout, status } = spawnSync(path, ['--version'], { encoding: 'utf8' })
    return status === 0 && stdout.trim() === BUN_VERSION
  })
}

function start(bun: string, args: readonly string[]): void {
  // As in the binary, neither .env nor bunfig.toml of the working directory is read.
  const options = ['--no-env-file', `--config=${fileURLToPath(new URL('./bunfig.toml', import.meta.url))}`]
  const child = spawn(bun, [...options, fileURLToPath(new URL('./main.js', import.meta.url)), ...args], {
    stdio: 'inherit',
  })
  const hand = (signal: NodeJS.Signals) => process.on(signal, () => void child.kill(signal))
  hand('SIGTERM')
  hand('SIGHUP')
  // Ctrl-C in a terminal reaches the child as well; twice would end it without a drain.
  if (process.stdin.isTTY) process.on('SIGINT', () => {})
  else hand('SIGINT')
  if (process.env['npm_command'] === 'exec') endWithParent(child)
  child.on('error', (error) => fail(`Bun cannot be started: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (signal ? constants.signals[signal] : 1)))
}

/** npx ends at SIGTERM without handing it on, and would leave the server behind. */
function endWithParent(child: ChildProcess): void {
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    child.kill('SIGTERM')
  }, 500)
  watch.unref()
}

function fail(message: string): void {
  console.error(message)
  process.exitCode = 1
}

const bun = findBun()
if (bun) start(bun, process.argv.slice(2))
else
  fail(
    `farebox needs Bun ${BUN_VERSION}, which npm installs with it as an optional dependency (${bunPackages().join(' or ')}).\n` +
      'Install farebox again without omitting optional dependencies, or put that version of Bun on PATH.',
  )
