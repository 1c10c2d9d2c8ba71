import { describe, expect, test } from 'bun:test'
import { dollars, parseAtomic, plus, print, roundUp, times, usdc } from '../../../core/x402/money.ts'

describe('money', () => {
  test('dollars() reads a decimal exactly', () => {
    expect(dollars('0.0535')).toEqual({ num: 535n, den: 10_000n })
    expect(dollars('12')).toEqual({ num: 12n, den: 1n })
    expect(dollars('999999999999999.000000000000000001').den).toBe(10n ** 18n)
  })

  test('dollars() refuses whatever is not a plain decimal', () => {
    for (const text of [
      '',
      '.5',
      '5.',
      '-1',
      '+1',
      '1e3',
      '1,5',
      ' 1',
      '1 ',
      '0x1',
      'NaN',
      '1.0000000000000000000',
      '1234567890123456',
    ]) {
      expect(() => dollars(text)).toThrow(RangeError)
    }
  })

  test('sums and products of rates stay exact where a float would not', () => {
    const three = plus(dollars('0.1'), plus(dollars('0.1'), dollars('0.1')))
    expect(three.num * 10n).toBe(three.den * 3n)
    const margin = times(times(dollars('0.1'), 3n), dollars('1.05'))
    expect(margin.num * 1000n).toBe(margin.den * 315n)
  })

  test('roundUp() rounds up to one micro-USDC, and only where there is a remainder', () => {
    expect(roundUp(dollars('0.000001'))).toBe(usdc(1n))
    expect(roundUp(dollars('0.0000010000000001'))).toBe(usdc(2n))
    expect(roundUp(dollars('0.0000000000000001'))).toBe(usdc(1n))
    expect(roundUp(dollars('0'))).toBe(usdc(0n))
  })

  test('usdc() refuses a negative amount', () => {
    expect(() => usdc(-1n)).toThrow('money cannot be negative')
    expect(usdc(0n)).toBe(usdc(0n))
  })

  test('print() shows six decimals, or fewer with rounding half up', () => {
    expect(print(usdc(22_000n))).toBe('0.022000')
    expect(print(usdc(0n))).toBe('0.000000')
    expect(print(usdc(1_234_567_890_123n))).toBe('1234567.890123')
    expect(print(usdc(16_750n), 3)).toBe('0.017')
    expect(print(usdc(16_499n), 3)).toBe('0.016')
    expect(print(usdc(500_000n), 0)).toBe('1')
    expect(print(usdc(499_999n), 0)).toBe('0')
    expect(print(usdc(1_995_000n), 2)).toBe('2.00')
  })

  test('parseAtomic() reads canonical base units and nothing else', () => {
    expect([parseAtomic('0'), parseAtomic('7')]).toEqual([usdc(0n), usdc(7n)])
    expect(parseAtomic('99999999999999999999')).toBe(usdc(99_999_999_999_999_999_999n))
    for (const wrong of [
      '',
      '00',
      '01',
      '-1',
      '+1',
      '1.0',
      '1e3',
      ' 1',
      '0x10',
      '١',
      '100000000000000000000',
      22_000,
      22n,
      null,
      undefined,
      {},
      ['1'],
    ]) {
      expect(parseAtomic(wrong)).toBeUndefined()
    }
  })
})
