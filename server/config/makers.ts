/** Vendors that come alive by an environment variable alone: the makers' own services, and a chat server of the operator's. */
import type { ChatSetting } from './chat.ts'
import type { Environment } from './settings.ts'
import type { ChatProtocol, Protocol, VendorTable, VideoProtocol } from './vendors.ts'

type Maker = {
  /** Variables that may hold the key, the first that is set; `X_BASE_URL` beside `X_API_KEY` says another address. */
  readonly keys: readonly string[]
  readonly protocol?: Protocol
  readonly chat?: ChatProtocol
  /** Where the maker serves each protocol; `own` is the address that the protocol is known for. */
  readonly chatAt?: Readonly<Partial<Record<ChatProtocol, string>>>
  readonly video?: VideoProtocol
}

const compatible = (address: string) => ({ openai: address, 'openai-chat': address, 'openai-responses': address })

const makers: Readonly<Record<string, Maker>> = {
  'vendor-a': { keys: ['OPENAI_API_KEY'], protocol: 'openai-images', chat: 'openai', chatAt: compatible('own') },
  'vendor-b': {
    keys: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
    protocol: 'gemini-images',
    chat: 'gemini',
    chatAt: { gemini: 'own' },
  },
  'vendor-c': {
    keys: ['XAI_API_KEY'],
    protocol: 'xai-images',
    chat: 'openai',
    chatAt: compatible('https://api.x.ai/v1'),
    video: 'xai-videos',
  },
  'vendor-d': {
    keys: ['ZAI_API_KEY', 'ZHIPU_API_KEY'],
    protocol: 'cogview',
    chat: 'openai-chat',
    chatAt: compatible('https://api.z.ai/api/paas/v4'),
  },
  'vendor-e': { keys: ['ARK_API_KEY'], protocol: 'seedream', video: 'seedance' },
  'vendor-g': { keys: ['ANTHROPIC_API_KEY'], chat: 'anthropic-messages', chatAt: { 'anthropic-messages': 'own' } },
  'vendor-h': { keys: ['DEEPSEEK_API_KEY'], chat: 'openai-chat', chatAt: compatible('https://api.deepseek.com') },
  'vendor-open': {
    keys: ['NVIDIA_API_KEY'],
    chat: 'openai-chat',
    chatAt: compatible('https://integrate.api.nvidia.com/v1'),
  },
}

/** The address of a vendor that names none: the maker's, the protocol's `own`, or `unknown`, where a key could end up with a stranger. */
export function addressOf(vendor: string, chat: ChatProtocol): string {
  const maker = makers[vendor]
  if (chat === 'echo') return 'own'
  if (maker) return maker.chatAt?.[chat] ?? 'unknown'
  return chat === 'openai-chat' ? 'unknown' : 'own'
}

/** The same for videos. Only what is built on it speaks openai-videos any more: OpenAI has shut its own down. */
export function videoAddressOf(vendor: string, video: VideoProtocol): 'own' | 'unknown' {
  if (video === 'demo') return 'own'
  const maker = makers[vendor]
  if (maker) return maker.video === video ? 'own' : 'unknown'
  return video === 'openai-videos' ? 'unknown' : 'own'
}

export type Found = { readonly vendors: VendorTable; readonly rows: readonly ChatSetting[] }

/** What the environment brings. A vendor that the file names is the file's alone. */
export function fromEnvironment(
  env: Environment,
  { named, isDevnet, mistakes }: { named: VendorTable; isDevnet: boolean; mistakes: string[] },
): Found {
  const own = ownServer(env, { isDevnet, mistakes })
  const vendors = {
    ...Object.fromEntries(Object.entries(makers).flatMap(([name, maker]) => tableOf(name, maker, { env, mistakes }))),
    ...own.vendors,
  }
  return {
    vendors: Object.fromEntries(Object.entries(vendors).filter(([name]) => !Object.hasOwn(named, name))),
    rows: own.rows,
  }
}

function tableOf(
  name: string,
  { keys, protocol, chat, video }: Maker,
  { env, mistakes }: { env: Environment; mistakes: string[] },
): [string, VendorTable[string]][] {
  const key = keys.find((variable) => env[variable])
  if (!key) return []
  const address = addressIn(env, key.replace(/_API_KEY$/, '_BASE_URL'), mistakes)
  return [
    [
      name,
      {
        key_env: key,
        ...(protocol && { protocol }),
        ...(chat && { chat }),
        ...(video && { video }),
        ...(address && { base_url: address }),
      },
    ],
  ]
}

function addressIn(env: Environment, variable: string, mistakes: string[]): string | undefined {
  const address = env[variable]
  if (!address) return undefined
  if (/^https?:\/\/\S+$/.test(address)) return address
  mistakes.push(`${variable}: must begin with http:// or https:// (its value is not shown)`)
  return undefined
}

// ── a chat server of the operator's ─────────────────────────────────────────────────────────────────────────────────

const OWN = 'local'
/** Characters of a name that fits into the id of a row. */
const MODEL = /^[\w./:-]{1,90}$/

/**
 * CHAT_BASE_URL names a server that speaks openai-chat. It serves the models of CHAT_MODEL as `local/<model>`, free on devnet and at the lowest flat
 * price elsewhere; without CHAT_MODEL it is one that hosts open weights, and serves the rows of vendor-open under the ids that it knows them by.
 */
function ownServer(env: Environment, { isDevnet, mistakes }: { isDevnet: boolean; mistakes: string[] }): Found {
  const address = addressIn(env, 'CHAT_BASE_URL', mistakes)
  if (!env.CHAT_BASE_URL)
    for (const variable of ['CHAT_MODEL', 'CHAT_API_KEY'])
      if (env[variable]) mistakes.push(`${variable}: has no meaning without CHAT_BASE_URL`)
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
        `CHAT_MODEL: ${JSON.stringify(model.slice(0, 80))} is not the name of a model; several are separated by commas`,
      )
  const vendor = {
    chat: 'openai-chat',
    base_url: address,
    ...(env.CHAT_API_KEY && { key_env: 'CHAT_API_KEY' }),
  } as const
  return {
    vendors: { [models.length > 0 ? OWN : 'vendor-open']: vendor },
    rows: models.filter((model) => MODEL.test(model)).map((model) => rowOf(model, isDevnet)),
  }
}

/** What the server can do is not known, so nothing is kept from it. */
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
    surfaces: ['responses'],
    ...(isFree ? { free: true } : { flat: '0.001' }),
  }
}
