/** The common part of the settings of every family of chains: keys in variables, and facilitators. */
import { type Static, type TProperties, Type } from '@sinclair/typebox'
import { duplicatesIn } from '../../../core/mod.ts'
import type { ChainFamily } from '../../../core/ports/mod.ts'
import { type Named, named, setting, Url, Variable } from '../../settings.ts'

export type Reading = { readonly env: Readonly<Record<string, string | undefined>>; readonly mistakes: string[] }
/** A payment method on one network, paid to one address. */
export type OnChain = {
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly rpcUrl: string
}

/** The settings of a family, and how a gateway's row is read by them. */
export type FamilySettings<Method extends { readonly settles: { readonly by: string } }> = {
  readonly family: ChainFamily
  /** Its networks in mistakes. */
  readonly words: string
  /** Settings that only this family has; `network` and what every family is paid by are beside them. */
  readonly settings: TProperties
  /** The use of a setting that another family has under another name. */
  readonly roles: Readonly<Record<string, 'key' | 'floor'>>
  /** Settings without an effect where facilitators settle, and why. A key beside them is refused by itself. */
  readonly withoutFacilitators: Readonly<Record<string, string>>
  /** Mistakes of an address of its form that must not be paid, by the name of the setting. */
  wrongPayee(name: string, address: string): readonly string[]
  /** Adds mistakes by name. */
  read(row: never, at: string, reading: Reading & { readonly shared: OnChain }): Method
}

const Origin = Type.String({ pattern: '^https?://[^/]+$' })

export const FacilitatorRow = Type.Object(
  {
    url: { ...Url, description: 'The root of the facilitator’s API.' },
    cdp_key_id_env: setting(
      'Coinbase CDP: the variable that holds the key id. Goes with `cdp_key_secret_env`.',
      Variable,
    ),
    cdp_key_secret_env: setting('Coinbase CDP: the variable that holds the key secret.', Variable),
    redirect_origins: setting('Origins that a redirect may lead to besides the URL’s own.', Type.Array(Origin), {
      usual: 'none',
    }),
  },
  { additionalProperties: false },
)

type FacilitatorSetting = Named<typeof FacilitatorRow.properties> & {
  readonly cdp?: { readonly keyId: string; readonly keySecret: string }
}

export type Facilitated = { readonly by: 'facilitators'; readonly rows: readonly FacilitatorSetting[] }

/** One variable that holds a key, or a list of them. */
export const Keys = Type.Union([Variable, Type.Array(Variable, { minItems: 1, maxItems: 64 })], {
  words:
    'the name of an environment variable, in capital letters (not the key itself), ' +
    'or a list of 1 to 64 such names, in square brackets',
})

/** `spell` normalizes a key, so that a key in two variables is detected. */
export function keysOf(
  named: string | readonly string[] | undefined,
  at: string,
  {
    isKey,
    form,
    spell = (key) => key,
    ...reading
  }: Reading & { isKey(text: string): boolean; form: string; spell?(key: string): string },
): readonly string[] {
  const { mistakes } = reading
  const variables = typeof named === 'string' ? [named] : (named ?? [])
  const keys = variables.map((variable) => {
    const key = secret(variable, at, reading)
    if (key && !isKey(key)) mistakes.push(`${variable}: must be ${form} (its value is not shown)`)
    return spell(key ?? '')
  })
  if (duplicatesIn(keys.filter(Boolean)).size > 0) mistakes.push(`${at}: two variables hold the same key`)
  return keys
}

export function facilitated(rows: readonly Static<typeof FacilitatorRow>[], at: string, reading: Reading): Facilitated {
  return {
    by: 'facilitators',
    rows: rows.map((row, index) => facilitator(row, `${at}.facilitators.${index}`, reading)),
  }
}

function facilitator(row: Static<typeof FacilitatorRow>, at: string, reading: Reading): FacilitatorSetting {
  const { cdp_key_id_env: idVariable, cdp_key_secret_env: secretVariable } = row
  if (!idVariable !== !secretVariable)
    reading.mistakes.push(`${at}: cdp_key_id_env and cdp_key_secret_env must be set together`)
  const keyId = secret(idVariable, `${at}.cdp_key_id_env`, reading)
  const keySecret = secret(secretVariable, `${at}.cdp_key_secret_env`, reading)
  return { ...named(FacilitatorRow.properties, row), ...(keyId && keySecret && { cdp: { keyId, keySecret } }) }
}

export function secret(variable: string | undefined, at: string, { env, mistakes }: Reading): string | undefined {
  if (!variable) return undefined
  const value = env[variable]
  if (!value) mistakes.push(`${at}: the environment variable ${variable} is not set`)
  return value
}
