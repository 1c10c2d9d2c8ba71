/** A configuration as it is read, or its mistakes. */
import type { Service, Values } from '../../../adapters/providers/manifest.ts'
import { type Config, parseConfig } from '../../../server/config/mod.ts'
import type { Environment } from '../../../server/config/settings.ts'

/** The configuration, which has to be without mistakes. */
export function good(toml: string, env: Environment = {}): Config {
  const read = parseConfig(toml, env)
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  return read.config
}

/** Who serves a product, by name; undefined where nothing is set. */
export function servedBy({ services }: Config, product: Service): readonly string[] | undefined {
  return services[product]?.map(({ by }) => by)
}

/** The settings of the first provider of a product. */
export function settingsOf({ services }: Config, product: Service): Values | undefined {
  return services[product]?.[0]?.settings
}

export function mistakes(toml: string, env: Environment = {}): readonly string[] {
  const read = parseConfig(toml, env)
  return read.ok ? [] : read.mistakes
}
