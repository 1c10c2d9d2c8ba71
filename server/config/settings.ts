/** Schemas that several parts of the configuration share. */
import { Type } from '@sinclair/typebox'

/** The name of an environment variable; too short and too plain to be a key pasted in the wrong place. */
export const Variable = Type.String({ pattern: '^[A-Z_][A-Z0-9_]{0,49}$' })
/** US dollars, as text, because prices are exact decimals. */
export const Rate = Type.String({ pattern: '^[0-9]{1,6}(\\.[0-9]{1,9})?$' })

export type Environment = Readonly<Record<string, string | undefined>>
