/** The socket of the proxy: on loopback alone, so that no other machine reaches it. */
import { MAX_REQUEST } from './order.ts'

type Listener = { readonly port: number; stop(): Promise<void> }

/** Throws where the port is taken. */
export function listenLocally(port: number, handle: (request: Request) => Promise<Response>): Listener {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port,
    maxRequestBodySize: MAX_REQUEST,
    fetch(request, socket) {
      // Answers take minutes, and streams pause.
      socket.timeout(request, 0)
      return handle(request)
    },
  })
  return { port: server.port ?? port, stop: () => server.stop(true) }
}
