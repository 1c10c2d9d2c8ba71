/** Files of a wallet's channels, one each, readable by their owner only. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BatchSettlementClientContext, BatchSettlementEvmScheme } from '@x402/evm/batch-settlement/client'

/** The immutable parameters of a channel. */
export type ChannelConfig = ReturnType<BatchSettlementEvmScheme['buildChannelConfig']>

/** With whom a channel was opened, and how. */
type ChannelName = {
  readonly origin: string
  readonly network: string
  readonly id: string
  readonly config: ChannelConfig
}

export type ChannelFile = ChannelName & { readonly context: BatchSettlementClientContext }

/** The channel's place in a directory, as the public client reads and writes it. */
export function channelFile(directory: string, name: ChannelName) {
  const path = join(directory, `${name.id.toLowerCase()}.json`)
  return {
    get: async () => read(path)?.context,
    async set(_: string, context: BatchSettlementClientContext) {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      const file: ChannelFile = { ...name, context }
      // In the place of the old one at once: a file that is cut in two would be a lost channel.
      writeFileSync(`${path}.new`, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 })
      renameSync(`${path}.new`, path)
    },
    delete: async () => rmSync(path, { force: true }),
  }
}

/** The channels that were opened with a gateway. */
export const channelsWith = (directory: string, origin: string): readonly ChannelFile[] =>
  allChannels(directory).filter((file) => file.origin === origin)

/** Every channel of this person, whichever wallet opened it. */
export const allChannels = (directory: string): readonly ChannelFile[] =>
  names(directory).flatMap((name) => read(join(directory, name)) ?? [])

function names(directory: string): readonly string[] {
  try {
    return readdirSync(directory).filter((name) => /^0x[0-9a-f]{64}\.json$/.test(name))
  } catch {
    return []
  }
}

/** A file that cannot be read is as none: the chain and the gateway know the channel too. */
function read(path: string): ChannelFile | undefined {
  try {
    const file = JSON.parse(readFileSync(path, 'utf8')) as ChannelFile
    return typeof file.context === 'object' && typeof file.config === 'object' ? file : undefined
  } catch {
    return undefined
  }
}
