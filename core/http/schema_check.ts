import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { Value } from '@sinclair/typebox/value'

/** Whether a value fits a schema, and what is wrong with it. */
export type SchemaCheck<Schema extends TSchema = TSchema> = Pick<TypeCheck<Schema>, 'Check' | 'Errors'>

/**
 * Compiles a schema to code. Interprets it where code must not be made from text, as in Workers while they serve; the
 * answers are the same.
 */
export function schemaCheck<Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> {
  try {
    return TypeCompiler.Compile(schema)
  } catch (error) {
    if (!(error instanceof EvalError)) throw error
    return interpretedCheck(schema)
  }
}

export const interpretedCheck = <Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> => ({
  Check: (value): value is Static<Schema> => Value.Check(schema, value),
  Errors: (value) => Value.Errors(schema, value),
})
