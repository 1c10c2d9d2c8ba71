/** Attempts to break out of a sandbox, as data. `$file`, `$port`, `$pid` and `$folder` are the host's own. */

/** The outcome: `refused` by whoever guards the door, or `nothing` of the host's in what it says. */
type Hostile = readonly [what: string, code: string, outcome: RegExp]

const REFUSED = /refused: .*(NotCapable|not supported|not allowed|denied|Requires|Permission)/s
/** Runs JavaScript from Python, as code in a sandbox can, and prints what comes of it. */
const js = (code: string): string => `
import asyncio, json
from pyodide.code import run_js
async def go():
    try:
        print('got:', str(await run_js(${JSON.stringify(`(async () => JSON.stringify(await (${code})) ?? 'undefined')()`)})))
    except BaseException as error:
        print('refused:', type(error).__name__, error)
asyncio.run(go())
`
const python = (code: string): string => `
try:
${code
  .split('\n')
  .map((line) => `    ${line}`)
  .join('\n')}
except BaseException as error:
    print('refused:', type(error).__name__, error)
`
const GONE = /refused: .*(FileNotFoundError|NotADirectoryError|OSError)/

export const hostile: readonly Hostile[] = [
  // ── files of the host ──
  ['reads a file of the host', python("print('got:', open('$file').read())"), GONE],
  ['reads the passwords of the host', python("print('got:', open('/etc/passwd').read())"), GONE],
  ['lists the folder of the gateway', python("import os\nprint('got:', os.listdir('$folder'))"), GONE],
  [
    'reads through a link of its own',
    python("import os\nos.symlink('$file', '/tmp/door')\nprint('got:', open('/tmp/door').read())"),
    GONE,
  ],
  ['reads by a path that climbs', python("print('got:', open('/home/user/../../../../../..$file').read())"), GONE],
  ['reads the environment of the gateway', python("print('got:', open('/proc/$pid/environ').read())"), GONE],
  ['reads a file with Deno', js("Deno.readTextFileSync('$file')"), REFUSED],
  ['reads a file with node:fs', js("import('node:fs').then((fs) => fs.readFileSync('$file', 'utf8'))"), REFUSED],
  ['reads a file as a URL', js("fetch('file://$file').then((reply) => reply.text())"), REFUSED],
  ['reads a file as a module', js("import('file://$file', { with: { type: 'json' } })"), REFUSED],
  ['reads the environment of the gateway with Deno', js("Deno.readTextFileSync('/proc/$pid/environ')"), REFUSED],
  ['reads its own environment in /proc', js("Deno.readTextFileSync('/proc/self/environ')"), REFUSED],
  ['reads its own memory', js("Deno.openSync('/proc/self/mem')"), REFUSED],
  ['lists the folder that it runs in', js("[...Deno.readDirSync('.')]"), REFUSED],
  ['asks whether a file is there', js("Deno.statSync('$file').size"), REFUSED],
  ['asks where a link leads', js("Deno.realPathSync('/proc/self/exe')"), REFUSED],
  [
    'mounts a folder of the host',
    python(
      "import pyodide_js\npyodide_js.mountNodeFS('/mnt/host', '$folder')\nimport os\nprint('got:', os.listdir('/mnt/host'))",
    ),
    /refused: /,
  ],
  [
    'opens a database of the host',
    js("import('node:sqlite').then(({ DatabaseSync }) => new DatabaseSync('$file.db').exec('create table a (b)'))"),
    REFUSED,
  ],
  // ── writing ──
  ['writes a file with Deno', js("Deno.writeTextFileSync('$file', 'mine')"), REFUSED],
  ['writes a file among the temporary ones', js('Deno.makeTempFileSync()'), REFUSED],
  ['removes a file', js("Deno.removeSync('$file')"), REFUSED],
  ['links a file into Pyodide’s folder', js("Deno.symlinkSync('$file', '$pyodide/door')"), REFUSED],
  [
    'keeps pages in a cache that other sandboxes share',
    js("caches.open('x').then((cache) => cache.put('http://x.example/', new Response('mine')))"),
    /refused: /,
  ],
  ['keeps text where other sandboxes find it', js("localStorage.setItem('a', 'b')"), /refused: /],
  // ── secrets ──
  ['prints its environment', python("import os\nprint('got:', dict(os.environ))"), /got: /],
  ['asks Deno for the environment', js('Deno.env.toObject()'), REFUSED],
  [
    'asks node:process for the environment',
    js("import('node:process').then(({ default: { env } }) => env.SECRET_OF_THE_HOST + '' + Object.keys(env))"),
    /refused: |got: "undefined"/,
  ],
  ['asks for the name of the host', js('Deno.hostname()'), REFUSED],
  ['asks who runs it', js("import('node:os').then((os) => os.userInfo())"), REFUSED],
  ['asks for the addresses of the host', js('Deno.networkInterfaces()'), REFUSED],
  // ── network ──
  ['fetches from the gateway', js("fetch('http://127.0.0.1:$port/').then((reply) => reply.text())"), REFUSED],
  ['opens a connection', js("Deno.connect({ hostname: '127.0.0.1', port: $port })"), REFUSED],
  [
    'opens a connection with node:net',
    js(
      "import('node:net').then((net) => new Promise((done, fail) => net.connect($port, '127.0.0.1').on('connect', () => done('open')).on('error', fail)))",
    ),
    REFUSED,
  ],
  [
    'opens a connection in Python',
    python("import socket\nsocket.create_connection(('127.0.0.1', $port), 1).send(b'x')\nprint('got: sent')"),
    /refused: |got: sent/,
  ],
  [
    'opens a web socket',
    js(
      "new Promise((done, fail) => { const socket = new WebSocket('ws://127.0.0.1:$port'); socket.onopen = () => done('open'); socket.onerror = (event) => fail(new Error(event.message)) })",
    ),
    REFUSED,
  ],
  [
    'fetches with urllib',
    python("import urllib.request\nprint('got:', urllib.request.urlopen('http://127.0.0.1:$port/').read())"),
    /refused: /,
  ],
  [
    'fetches with pyodide',
    python("from pyodide.http import open_url\nprint('got:', open_url('http://127.0.0.1:$port/').read())"),
    /refused: /,
  ],
  ['listens', js('Deno.listen({ port: 0 })'), REFUSED],
  ['serves', js("Deno.serve({ port: 0 }, () => new Response('x'))"), REFUSED],
  ['asks for a name', js("Deno.resolveDns('farebox.example', 'A')"), REFUSED],
  ['talks to a socket of the host', js("Deno.connect({ transport: 'unix', path: '$file.sock' })"), REFUSED],
  ['loads a module of the web', js("import('https://' + 'farebox.example/mod.ts')"), /refused: /],
  ['loads a package', js("import('npm:' + 'left-pad')"), /refused: /],
  [
    'installs a package',
    python(
      "import pyodide_js, asyncio\nasync def go():\n    await pyodide_js.loadPackage('https://127.0.0.1:$port/x.whl')\nasyncio.run(go())\nimport x",
    ),
    /refused: /,
  ],
  [
    'looks for a graphics card',
    js('navigator.gpu.requestAdapter().then((adapter) => adapter && adapter.info.description)'),
    /got: null/,
  ],
  // ── programs ──
  ['starts a program', js("new Deno.Command('/bin/sh', { args: ['-c', 'id'] }).outputSync()"), REFUSED],
  [
    'starts a program with node:child_process',
    js(
      "import('node:child_process').then((child) => child.execFileSync('/bin/sh', ['-c', 'id'], { env: {} }).toString())",
    ),
    REFUSED,
  ],
  [
    'starts a program in Python',
    python("import subprocess\nprint('got:', subprocess.run(['/bin/sh', '-c', 'id'], capture_output=True).stdout)"),
    /refused: /,
  ],
  ['runs a line of a shell', python("import os\ncode = os.system('id')\nraise OSError(code)"), /refused: /],
  ['forks', python('import os\nwhile True: os.fork()'), /refused: /],
  [
    'makes threads without end',
    python('import threading, time\nfor _ in range(10_000): threading.Thread(target=time.sleep, args=(9,)).start()'),
    /refused: /,
  ],
  ['becomes another program', python("import os\nos.execv('/bin/sh', ['sh', '-c', 'id'])"), /refused: /],
  ['ends the gateway', js("Deno.kill($pid, 'SIGKILL')"), REFUSED],
  [
    'ends the gateway with node:process',
    js("import('node:process').then(({ default: process }) => process.kill(process.ppid, 9))"),
    REFUSED,
  ],
  ['ends the gateway in Python', python('import os\nos.kill($pid, 9)'), /refused: /],
  [
    'calls into a library of the host',
    js("Deno.dlopen('libc.so.6', { getpid: { parameters: [], result: 'i32' } })"),
    REFUSED,
  ],
  [
    'loads a library with ctypes',
    python("import ctypes\nprint('got:', ctypes.CDLL('libc.so.6').getpid())"),
    /refused: /,
  ],
  ['opens a debugger', js("import('node:inspector').then((inspector) => inspector.open(0))"), REFUSED],
  [
    'asks for more rights',
    js(
      "Deno.permissions.request({ name: 'read' }).then(({ state }) => { throw new Error('denied'.startsWith(state) ? 'Permission ' + state : 'granted') })",
    ),
    REFUSED,
  ],
  // ── too much ──
  ['takes a gigabyte', python("x = bytearray(10 ** 9)\nprint('got:', len(x))"), /refused: MemoryError/],
  ['takes memory by doubling', python("x = b'x' * 2 ** 20\nwhile True: x += x"), /refused: MemoryError/],
  ['calls itself without end', python('def f(): f()\nf()'), /refused: RecursionError/],
  ['nests without end', python("eval('(' * 100_000 + ')' * 100_000)"), /refused: /],
  // ── the channel ──
  [
    'writes bytes that are no text',
    "import os\nos.write(1, bytes(range(256)))\nprint('got: \\ud800 \\x00')",
    /got: \\ud800 \0/,
  ],
  ['closes its output', "import sys, os\nprint('got: closed', flush=True)\nsys.stdout.close()", /got: closed/],
  [
    'replaces its output',
    "import sys, io\nprint('got: before')\nsys.stdout = io.StringIO()\nprint('never')",
    /got: before/,
  ],
  [
    'spoils every object',
    js(
      "(() => { Object.prototype.id = 0; Object.prototype.returncode = 'x'; Array.prototype.toJSON = () => 'x'; const said = 'spoilt'; delete Object.prototype.id; delete Object.prototype.returncode; delete Array.prototype.toJSON; return said })()",
    ),
    /got: "spoilt"/,
  ],
  [
    'leaves objects spoilt in Python',
    "import builtins, json, traceback\nbuiltins.print = None\njson.loads = None\nraise SystemExit('got: left')",
    /got: left/,
  ],
]

/** Texts that may stand nowhere in the output of a sandbox. */
export const SECRETS = ['s3cret-of-the-host', 'uid=0', 'root:x:']
