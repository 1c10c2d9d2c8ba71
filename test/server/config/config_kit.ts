/** What a configuration is read as, or refused for. */
import { type Config, parseConfig } from '../../../server/config/mod.ts'
import type { Environment } from '../../../server/config/vendors.ts'

/** The configuration, which has to be without mistakes. */
export function good(toml: string, env: Environment = {}): Config {
  const read = parseConfig(toml, env)
  if (!read.ok) throw new Error(read.mistakes.join('\n'))
  return read.config
}

export function mistakes(toml: string, env: Environment = {}): readonly string[] {
  const read = parseConfig(toml, env)
  return read.ok ? [] : read.mistakes
}
