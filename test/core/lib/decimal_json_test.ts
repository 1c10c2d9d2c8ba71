import { describe, expect, test } from 'bun:test'
import { exact, exactJson, scaled } from '../../../core/lib/decimal_json.ts'

describe('exact decimals', () => {
  test('reach JSON digit by digit, where a binary float would lose some', () => {
    expect(exactJson({ price: exact('64123.123456789012345678'), bars: [{ o: exact('0.1'), t: 1 }] })).toBe(
      '{"price":64123.123456789012345678,"bars":[{"o":0.1,"t":1}]}',
    )
  })

  test('are plain: no exponent, no sign but minus, no leading zero, no text that could break out of a reply', () => {
    for (const wrong of [
      '1e5',
      '+1',
      '01',
      '.5',
      '5.',
      '',
      ' 1',
      '1 ',
      'NaN',
      'Infinity',
      '1,2',
      '1}',
      '--1',
      '0x1',
      '1\n',
    ])
      expect(() => exact(wrong)).toThrow('not a decimal')
    for (const right of ['0', '-0.5', '10', '0.000', '123456789012345678901234567890.1'])
      expect(exact(right)).toEqual({ exact: right })
  })

  test('are scaled exactly, without trailing zeros', () => {
    const cases: readonly [bigint, number, string][] = [
      [6412312n, -2, '64123.12'],
      [33223750n, -5, '332.2375'],
      [5n, -8, '0.00000005'],
      [-5n, -1, '-0.5'],
      [-12345n, -2, '-123.45'],
      [0n, -5, '0'],
      [100n, -2, '1'],
      [12n, 3, '12000'],
      [7n, 0, '7'],
      [99999999999999999999n, -18, '99.999999999999999999'],
    ]
    for (const [units, exponent, text] of cases) expect(scaled(units, exponent).exact).toBe(text)
  })

  test('survive storage, which keeps them as JSON', () => {
    const stored = JSON.parse(JSON.stringify({ price: exact('0.10') }))
    expect(exactJson(stored)).toBe('{"price":0.10}')
  })

  test('leave all other JSON as it is, and drop what is undefined', () => {
    const value = { text: 'a "b" \n', none: null, yes: true, list: [1, 'x', { deep: [] }], exact: 'not alone', more: 1 }
    expect(exactJson({ ...value, gone: undefined } as never)).toBe(JSON.stringify(value))
    expect(exactJson({ exact: 'words' })).toBe('{"exact":"words"}')
  })
})
