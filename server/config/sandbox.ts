/** The part of the configuration that says where sandboxes run. */
import { type Static, Type } from '@sinclair/typebox'
import { oneOf, setting, Url } from './settings.ts'

/** Settings of the file; their keys come from the environment only. */
export const sandboxSettings = {
  sandbox: setting(
    'Where sandboxes run: `e2b`, `modal`, `embedded` (in a process on this machine; not with Postgres) or `off`.',
    oneOf('e2b', 'modal', 'embedded', 'off'),
    { usual: '`e2b` or `modal` with its key; `embedded` on devnet; else `off`' },
  ),
  e2b_base_url: setting('Another address of the E2B API.', Url, { usual: 'the public API' }),
  e2b_template: setting(
    'The E2B template of new sandboxes.',
    Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._/:-]{0,99}$' }),
    { usual: '`code-interpreter-v1`' },
  ),
  modal_app: setting(
    'The Modal app that sandboxes belong to.',
    Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' }),
    { usual: '`farebox`' },
  ),
  sandbox_most: setting('Embedded sandboxes that may be alive at once.', Type.Integer({ minimum: 1, maximum: 64 }), {
    usual: '4',
  }),
  sandbox_memory_mb: setting(
    'The memory limit of one embedded sandbox, in MB.',
    Type.Integer({ minimum: 64, maximum: 1024 }),
    { usual: '512' },
  ),
}
const Settings = Type.Object(sandboxSettings)
type Given = Static<typeof Settings>

export const sandboxVariables = {
  SANDBOX: 'sandbox',
  E2B_BASE_URL: 'e2b_base_url',
  E2B_TEMPLATE: 'e2b_template',
  MODAL_APP: 'modal_app',
  SANDBOX_MOST: 'sandbox_most',
  SANDBOX_MEMORY_MB: 'sandbox_memory_mb',
} as const

export const sandboxUrls = ['e2b_base_url'] as const

export type SandboxConfig =
  | {
      readonly by: 'e2b'
      readonly key: string
      readonly baseUrl: string | undefined
      readonly template: string | undefined
    }
  | { readonly by: 'modal'; readonly tokenId: string; readonly tokenSecret: string; readonly app: string | undefined }
  /** How many may be alive at a time in one process, and how much memory one may have, in MB. */
  | { readonly by: 'embedded'; readonly most?: number | undefined; readonly memory?: number | undefined }
  | { readonly by: 'off' }

type Tools = {
  key(variable: string): string | undefined
  mistake(text: string): void
  unread(settings: Readonly<Record<string, string | undefined>>, why: string): void
}

const KEYS = { e2b: 'E2B_API_KEY', modalId: 'MODAL_TOKEN_ID', modalSecret: 'MODAL_TOKEN_SECRET' } as const

/** A key brings its vendor to life; the embedded one has to be named, except on devnet, where it is there unless told. */
export function resolveSandbox(given: Given, { key, mistake, unread }: Tools): SandboxConfig | undefined {
  const [e2b, tokenId, tokenSecret] = [key(KEYS.e2b), key(KEYS.modalId), key(KEYS.modalSecret)]
  const found = [...(e2b ? ['e2b' as const] : []), ...(tokenId || tokenSecret ? ['modal' as const] : [])]
  if (!given.sandbox && found.length > 1)
    mistake(
      `sandbox: not set; ${KEYS.e2b} and ${KEYS.modalId} are both there, so sandbox (SANDBOX) has to say which of e2b and modal it is`,
    )
  const by = given.sandbox ?? found[0]
  const { e2b_base_url, e2b_template, modal_app, sandbox_most: most, sandbox_memory_mb: memory } = given
  if (by !== 'e2b') unread({ e2b_base_url, e2b_template }, `unless sandboxes run at E2B, which needs ${KEYS.e2b}`)
  if (by !== 'modal')
    unread({ modal_app }, `unless sandboxes run at Modal, which needs ${KEYS.modalId} and ${KEYS.modalSecret}`)
  if (by && by !== 'embedded')
    unread({ sandbox_most: numeral(most), sandbox_memory_mb: numeral(memory) }, 'unless sandboxes are embedded')
  if (by === 'e2b') {
    if (!e2b) mistake(`sandbox: e2b needs the environment variable ${KEYS.e2b}, which is not set`)
    return { by, key: e2b ?? '', baseUrl: e2b_base_url, template: e2b_template }
  }
  if (by === 'modal') {
    for (const [value, variable] of [
      [tokenId, KEYS.modalId],
      [tokenSecret, KEYS.modalSecret],
    ] as const)
      if (!value) mistake(`sandbox: modal needs the environment variable ${variable}, which is not set`)
    return { by, tokenId: tokenId ?? '', tokenSecret: tokenSecret ?? '', app: modal_app }
  }
  if (by === 'off') return { by }
  return by === 'embedded' || most !== undefined || memory !== undefined ? { by: 'embedded', most, memory } : undefined
}

const numeral = (count: number | undefined): string | undefined => (count === undefined ? undefined : String(count))

/** The account whose sandboxes are the operator's to pay for, with the variable of its key. */
export function keyedSandbox(config: SandboxConfig | undefined): readonly (readonly [string, string])[] {
  if (config?.by === 'e2b') return [['e2b', KEYS.e2b]]
  return config?.by === 'modal' ? [['modal', KEYS.modalId]] : []
}
