/** `farebox devnet`: local chains and test money, whatever the configuration says of gateways. */
import { type Command, overridden, readOptions } from './command.ts'
import { listenOptions } from './start.ts'

export const command: Command = {
  name: 'devnet',
  summary: 'start with local chains and test money, without reading farebox.toml',
  help: `Starts a devnet: local chains, a funded test wallet and demo products, for trying things out.
farebox.toml is not read; the environment is.

Usage: farebox devnet [options]

Options:
  --port N       the port to listen on (PORT; default: 4020)
  --host ADDR    the address to listen on (HOST; default: 127.0.0.1)

Examples:
  farebox devnet
  farebox devnet --port 4021`,
  async run(args, io) {
    const { config: _, ...options } = listenOptions
    const { port, host } = readOptions(args, options, 0).values
    await io.serve(overridden(io.env, { PORT: port, HOST: host }), { isDevnet: true })
    return undefined
  },
}
