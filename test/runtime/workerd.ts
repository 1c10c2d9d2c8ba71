/** Programs of a test in workerd, the runtime of Cloudflare Workers, from `test/programs`. */
import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { PROGRAMS } from '../programs/mod.ts'

const ROOT = join(import.meta.dirname, '../..')

/** The doors of the package, as the sources that they are built from. */
const DOORS: Readonly<Record<string, string>> = {
  farebox: 'core/mod.ts',
  'farebox/adapters': 'adapters/mod.ts',
  'farebox/workers': 'adapters/workers.ts',
  'bun:test': 'test/runtime/expect_shim.ts',
}

/** One file that needs nothing but workerd, as wrangler would make it. */
export async function bundleWorker(entry: string, outdir: string): Promise<void> {
  const { success, logs } = await Bun.build({
    entrypoints: [entry],
    target: 'node',
    format: 'esm',
    outdir,
    naming: 'worker.js',
    conditions: ['workerd', 'worker', 'browser'],
    minify: true,
    // Workers have none.
    define: { 'import.meta.url': '"file:///worker.js"' },
    external: ['node:*', 'cloudflare:*', 'secp256k1'],
    plugins: [
      {
        name: 'the package',
        setup(builder) {
          builder.onResolve({ filter: /^(farebox(\/\w+)?|bun:test)$/ }, ({ path }) => {
            const source = DOORS[path]
            return source === undefined ? undefined : { path: join(ROOT, source) }
          })
          builder.onResolve({ filter: /^expect$/ }, () => ({ path: createRequire(PROGRAMS).resolve('expect') }))
        },
      },
    ],
    throw: false,
  })
  if (!success) throw new Error(`the worker does not compile:\n${logs.map(String).join('\n')}`)
}

export type Worker = { readonly url: string; stop(): Promise<void> }

/** Starts a worker whose Durable Object `Farebox` keeps its database under `dir`. */
export async function startWorker(dir: string, vars: Readonly<Record<string, string>> = {}): Promise<Worker> {
  await mkdir(join(dir, 'database'), { recursive: true })
  const bindings = Object.entries(vars).map(([name, text]) => `(name = "${name}", text = "${text}")`)
  await writeFile(
    join(dir, 'worker.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "farebox", worker = .farebox),
    (name = "internet", network = (allow = ["public", "private", "local"], tlsOptions = (trustBrowserCas = true))),
    (name = "database", disk = (path = "database", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "farebox")]
);
const farebox :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [(className = "Farebox", uniqueKey = "farebox", enableSql = true)],
  durableObjectStorage = (localDisk = "database"),
  globalOutbound = "internet",
  bindings = [(name = "FAREBOX", durableObjectNamespace = "Farebox")${bindings.map((each) => `, ${each}`).join('')}]
);
`,
  )
  const child = spawn(workerdBinary(), ['serve', 'worker.capnp', '--control-fd=3'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let errors = ''
  child.stderr?.on('data', (chunk: Buffer) => void (errors += chunk.toString()))
  const port = await new Promise<number>((resolve, reject) => {
    let events = ''
    child.stdio[3]?.on('data', (chunk: Buffer) => {
      events += chunk.toString()
      for (const line of events.split('\n').slice(0, -1)) {
        const { event, port } = JSON.parse(line) as { event: string; port?: number }
        if (event === 'listen' && port !== undefined) resolve(port)
      }
    })
    child.once('exit', (code) => reject(new Error(`workerd ended with ${code}: ${errors}`)))
  })
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

function workerdBinary(): string {
  const beside = createRequire(createRequire(PROGRAMS).resolve('workerd/package.json'))
  const [os, arch] = [
    { linux: 'linux', darwin: 'darwin' }[process.platform as string],
    process.arch === 'x64' ? '64' : 'arm64',
  ]
  return join(dirname(beside.resolve(`@cloudflare/workerd-${os}-${arch}/package.json`)), 'bin/workerd')
}
