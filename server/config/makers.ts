/**
 * Vendors that are configured by environment variables alone: the makers' own services, and a chat server of the
 * operator.
 */
import { CHAT_STYLES, type ChatStyle } from '../../adapters/providers/manifest.ts'
import type { ChatSetting } from './chat.ts'
import type { Environment } from './settings.ts'
import { type Maker, makers, protocolsOf } from './providers.ts'
import type { VendorTable } from './vendors.ts'

type Found = { readonly vendors: VendorTable; readonly rows: readonly ChatSetting[] }

/** The vendors from the environment. A vendor in the file ignores the environment. */
export function fromEnvironment(
  env: Environment,
  { named, isDevnet, mistakes }: { named: VendorTable; isDevnet: boolean; mistakes: string[] },
): Found {
  const own = ownServer(env, { isDevnet, mistakes })
  const vendors = {
    ...Object.fromEntries([...makers.values()].flatMap((maker) => tableOf(maker, { env, mistakes }))),
    ...own.vendors,
  }
  return {
    vendors: Object.fromEntries(Object.entries(vendors).filter(([name]) => !Object.hasOwn(named, name))),
    rows: own.rows,
  }
}

function tableOf(
  { name, key, address, chatStyle, speaks, manifest }: Maker,
  { env, mistakes }: { env: Environment; mistakes: string[] },
): [string, VendorTable[string]][] {
  const { environment } = manifest
  const found = Object.keys(environment).find((variable) => environment[variable] === key && env[variable])
  if (!found) return []
  // When a maker has several names, the address belongs to the name of the key.
  const beside = found.replace(/_API_KEY$/, '_BASE_URL')
  const style =
    chatStyle &&
    styleIn(
      env,
      Object.keys(environment).find((variable) => environment[variable] === chatStyle),
      mistakes,
    )
  const url = environment[beside] === address ? addressIn(env, beside, mistakes) : undefined
  return [
    [
      name,
      {
        key_env: found,
        ...(speaks.images && { protocol: speaks.images }),
        ...(speaks.chat && { chat: speaks.chat }),
        ...(speaks.videos && { video: speaks.videos }),
        ...(url && { base_url: url }),
        ...(style && { chat_style: style }),
      },
    ],
  ]
}

function styleIn(env: Environment, variable = '', mistakes: string[]): ChatStyle | undefined {
  const named = env[variable]
  if (!named) return undefined
  const style = CHAT_STYLES.find((each) => each === named)
  if (!style)
    mistakes.push(`${variable}: must be ${CHAT_STYLES.join(' or ')}, got ${JSON.stringify(named.slice(0, 40))}`)
  return style
}

function addressIn(env: Environment, variable: string, mistakes: string[]): string | undefined {
  const address = env[variable]
  if (!address) return undefined
  if (/^https?:\/\/\S+$/.test(address)) return address
  mistakes.push(`${variable}: must begin with http:// or https:// (its value is not shown)`)
  return undefined
}

// ── a chat server of the operator ───────────────────────────────────────────────────────────────────────────────────

const OWN = 'local'
/** The protocol that most servers speak. */
const COMMON = [...protocolsOf('chat')].find(([, { isCommon }]) => isCommon)?.[0] ?? ''
/** Characters of a name that are allowed in a row id. */
const MODEL = /^[\w./:-]{1,90}$/

/**
 * CHAT_BASE_URL names a server that speaks openai-chat. It serves the models of CHAT_MODEL as `local/<model>`, free on
 * devnet and at the lowest flat price elsewhere. Without CHAT_MODEL the server hosts open weights, and serves the rows
 * of vendor-open under their upstream ids.
 */
function ownServer(env: Environment, { isDevnet, mistakes }: { isDevnet: boolean; mistakes: string[] }): Found {
  const address = addressIn(env, 'CHAT_BASE_URL', mistakes)
  if (!env.CHAT_BASE_URL)
    for (const variable of ['CHAT_MODEL', 'CHAT_API_KEY'])
      if (env[variable]) mistakes.push(`${variable}: has no effect without CHAT_BASE_URL`)
  if (!address) return { vendors: {}, rows: [] }
  const models = [
    ...new Set(
      (env.CHAT_MODEL ?? '')
        .split(',')
        .map((model) => model.trim())
        .filter((model) => model !== ''),
    ),
  ]
  for (const model of models)
    if (!MODEL.test(model))
      mistakes.push(
        `CHAT_MODEL: ${JSON.stringify(model.slice(0, 80))} is not the name of a model; separate several with commas`,
      )
  const vendor = {
    chat: COMMON,
    base_url: address,
    ...(env.CHAT_API_KEY && { key_env: 'CHAT_API_KEY' }),
  }
  return {
    vendors: { [models.length > 0 ? OWN : 'vendor-open']: vendor },
    rows: models.filter((model) => MODEL.test(model)).map((model) => rowOf(model, isDevnet)),
  }
}

/** The capabilities of the server are unknown, so none is restricted. */
function rowOf(model: string, isFree: boolean): ChatSetting {
  return {
    id: `${OWN}/${model}`,
    name: model,
    description: 'Served by a machine of the operator.',
    vendor: OWN,
    upstream: model,
    context_window: 131_072,
    max_output: 16_384,
    images: 'tiles_512',
    reads: ['file', 'audio'],
    ...(isFree ? { free: true } : { flat: '0.001' }),
  }
}
