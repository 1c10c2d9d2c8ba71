/**
 * E2B as far as its library asks it, on loopback. Routes and members from e2b@2.51.0 (`dist/index.d.ts`, `paths`;
 * `dist/index.mjs`, `process.Process`): from types, none recorded from the service. The machine speaks the streaming
 * form of Connect-RPC: five bytes before each JSON message.
 */
type Script = { readonly stdout?: string; readonly stderr?: string; readonly exitCode?: number }
type SentRequest = {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly body: any
}

export function e2bStandIn(
  answer: (command: string) => Script = () => ({}),
  refuse: (order: SentRequest) => Response | undefined = () => undefined,
) {
  const requests: SentRequest[] = []
  const alive = new Set<string>()
  const about = (sandboxID: string) => ({
    sandboxID,
    templateID: 'template',
    clientID: 'client',
    envdVersion: '0.4.0',
    envdAccessToken: 'token-of-the-machine',
    domain: null,
  })

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const bytes = new Uint8Array(await request.arrayBuffer())
      const isRpc = pathname === '/process.Process/Start'
      const text = new TextDecoder().decode(isRpc ? bytes.slice(5) : bytes)
      const call: SentRequest = {
        method: request.method,
        path: pathname,
        headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text),
      }
      requests.push(call)
      const refused = refuse(call)
      if (refused) return refused
      if (isRpc)
        return new Response(ran(answer(call.body.process.args.at(-1))), {
          headers: { 'content-type': 'application/connect+json' },
        })
      if (pathname === '/process.Process/SendSignal') return Response.json({})
      const [, id = '', verb] = /^(?:\/v2)?\/sandboxes(?:\/([\w-]+))?(?:\/(\w+))?$/.exec(pathname) ?? []
      if (request.method === 'POST' && id === '') {
        const made = `e2b-${alive.size + 1}`
        alive.add(made)
        return Response.json(about(made), { status: 201 })
      }
      if (!alive.has(id)) return Response.json({ code: 404, message: `no sandbox ${id}` }, { status: 404 })
      if (verb === 'connect') return Response.json(about(id), { status: 200 })
      if (request.method === 'DELETE') {
        alive.delete(id)
        return new Response(null, { status: 204 })
      }
      return Response.json({
        ...about(id),
        state: 'running',
        cpuCount: 2,
        memoryMB: 512,
        startedAt: '2026-11-20T00:00:00Z',
        endAt: '2026-11-20T00:05:00Z',
        metadata: {},
      })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, requests, alive, stop: () => server.stop(true) }
}

function ran({ stdout = '', stderr = '', exitCode = 0 }: Script): Blob {
  const data = (name: string, text: string) => (text === '' ? [] : [{ event: { data: { [name]: btoa(text) } } }])
  const events = [
    { event: { start: { pid: 7 } } },
    ...data('stdout', stdout),
    ...data('stderr', stderr),
    { event: { end: { exitCode, exited: true, status: `exit status ${exitCode}` } } },
  ]
  return new Blob([...events.map((event) => envelope(0, event)), envelope(2, {})] as BlobPart[])
}

function envelope(flags: number, message: unknown): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(message))
  const bytes = new Uint8Array(5 + text.length)
  bytes[0] = flags
  new DataView(bytes.buffer).setUint32(1, text.length)
  bytes.set(text, 5)
  return bytes
}
