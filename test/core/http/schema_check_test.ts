import { describe, expect, test } from 'bun:test'
import { endpoints } from '../../../core/mod.ts'
import { isSold } from '../../../core/endpoint/mod.ts'
import { interpretedCheck, schemaCheck } from '../../../core/http/schema_check.ts'

const values = [{}, { model: 1 }, { prompt: '' }, { messages: [] }, { messages: [{ role: 'user' }] }, null, 'text']

describe('a schema that is interpreted says what the compiled one says', () => {
  const sold = endpoints.filter(isSold)
  test.each(sold.map((endpoint) => [endpoint.name, endpoint] as const))('of %s', (_, { input, ...endpoint }) => {
    const [compiled, interpreted] = [schemaCheck(input), interpretedCheck(input)]
    for (const value of ['example' in endpoint ? endpoint.example : {}, ...values]) {
      expect(interpreted.Check(value)).toBe(compiled.Check(value))
      expect([...interpreted.Errors(value)]).toEqual([...compiled.Errors(value)])
    }
  })
})
