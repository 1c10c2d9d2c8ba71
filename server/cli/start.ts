/** `farebox start`: the gateway as farebox.toml and the environment configure it. */
import { type Command, overridden, readOptions } from './command.ts'

export const listenOptions = {
  config: { type: 'string' },
  port: { type: 'string' },
  host: { type: 'string' },
} as const

export const command: Command = {
  name: 'start',
  summary: 'start the gateway; without a configured gateway, a devnet',
  help: `Starts the gateway as farebox.toml and the environment configure it. Without a gateway in the
configuration it starts a devnet: local chains, test money and demo products. It refuses to where anything is set
that no devnet needs, such as PUBLIC_ORIGIN or RELAYER_KEY: for a devnet with it there is farebox devnet.

Usage: farebox start [options]

Options:
  --config FILE  the configuration file (FAREBOX_CONFIG; default: farebox.toml)
  --port N       the port to listen on (PORT)
  --host ADDR    the address to listen on (HOST)

Options override the environment, and the environment overrides the file.

Examples:
  farebox start
  farebox start --config /etc/farebox/farebox.toml --port 8080`,
  async run(args, io) {
    const { config, port, host } = readOptions(args, listenOptions, 0).values
    await io.serve(overridden(io.env, { FAREBOX_CONFIG: config, PORT: port, HOST: host }))
    return undefined
  },
}
