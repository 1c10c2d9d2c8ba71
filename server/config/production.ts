/** Settings that only a gateway that sells has: a start without a configuration refuses if it finds any. */
import { ACTING_SERVICES } from '../../adapters/providers/manifest.ts'
import { type Settings, variables } from './file.ts'
import { secretsOf } from './services/reports.ts'
import type { Environment } from './settings.ts'

const SETTINGS = [
  'public_origin',
  'database_url',
  'object_store',
  'operator_token',
  'alert_webhook_url',
  'alert_webhook_secret',
  'trusted_proxies',
  'poll_keys',
  'signing_key',
  'retention.archive_store',
] as const

/** Keys that pay for settlements: their variables are named by the file, and so usually. */
const PAYING_KEY = /(?:^|_)(?:RELAYER|FEE_PAYER)(?:_|$)/

/** The names of what is set, as they were given: variables, or settings of a file without a gateway. */
export function productionSettings(file: Settings, env: Environment): readonly string[] {
  const isSet = (setting: string) => {
    const [name = setting, member] = setting.split('.')
    const value = (file as unknown as Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>)[name]
    return (member === undefined ? value : value?.[member]) !== undefined
  }
  const named = (setting: string) =>
    Object.keys(variables).find((name) => variables[name] === setting && env[name]) ?? setting
  const secrets = new Set(ACTING_SERVICES.flatMap(secretsOf))
  return [
    ...SETTINGS.filter(isSet).map(named),
    ...Object.keys(env).filter((name) => env[name] && (PAYING_KEY.test(name) || secrets.has(name))),
  ]
}
