/** `farebox devnet`: local chains and test money, whatever the configuration says of gateways. */
import { join } from 'node:path'
import { DEVNET_DIR } from '../config/file.ts'
import { DEFAULT_PORT } from '../config/settings.ts'
import { type Command, overridden, readOptions, UsageError } from './command.ts'
import { listenOptions } from './start.ts'

export const command: Command = {
  name: 'devnet',
  summary: 'start with local chains and test money, without reading farebox.toml',
  help: `Starts a devnet: local chains, a funded test wallet and demo products, for trying things out.
farebox.toml is not read; the environment is. It has a ledger of its own and opens no other one.

Usage: farebox devnet [options]

Options:
  --data DIR     keep all of it in this folder, whatever DATABASE_URL and OBJECT_STORE say (default: ${DEVNET_DIR})
  --port N       the port to listen on (PORT; default: ${DEFAULT_PORT})
  --host ADDR    the address to listen on (HOST; default: 127.0.0.1)

Examples:
  farebox devnet
  farebox devnet --data /tmp/devnet --port 4021`,
  async run(args, io) {
    const { config: _, ...options } = listenOptions
    const { port, host, data } = readOptions(args, { ...options, data: { type: 'string' } }, 0).values
    if (data === '') throw new UsageError('--data needs a folder')
    const own = data && {
      DATABASE_URL: `sqlite:${join(data, 'farebox.db')}`,
      OBJECT_STORE: `file:${join(data, 'media')}`,
    }
    await io.serve({ ...overridden(io.env, { PORT: port, HOST: host }), ...own }, { isDevnet: true, data })
    return undefined
  },
}
