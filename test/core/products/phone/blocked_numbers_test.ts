import { describe, expect, test } from 'bun:test'
import { isPremiumRate, isEmergency } from '../../../../core/products/phone/blocked_numbers.ts'

/** Calling codes, and numbers of emergency services and crisis lines there. */
const SERVICES: Readonly<Record<string, readonly string[]>> = {
  '1': ['911', '988', '933', '112', '211', '8002738255'],
  '7': ['112', '101', '102', '103'],
  '27': ['10111', '10177', '112'],
  '30': ['112', '100', '166', '199'],
  '31': ['112', '113'],
  '32': ['112', '101', '1813'],
  '33': ['112', '15', '17', '18', '114', '119', '3114'],
  '34': ['112', '091', '092', '024'],
  '36': ['112', '104', '105', '107'],
  '39': ['112', '113', '115', '118'],
  '40': ['112'],
  '41': ['112', '117', '118', '144', '143'],
  '43': ['112', '122', '133', '144', '142'],
  '44': ['999', '112', '111', '101', '18000', '116123'],
  '45': ['112', '114'],
  '46': ['112', '114'],
  '47': ['112', '110', '113', '116117'],
  '48': ['112', '997', '998', '999', '116111'],
  '49': ['110', '112', '116117', '08001110111', '8001110222'],
  '52': ['911'],
  '54': ['911', '100', '107'],
  '55': ['190', '192', '193'],
  '61': ['000', '112', '106', '131114', '132500'],
  '62': ['112', '110', '118'],
  '64': ['111', '112'],
  '65': ['999', '995'],
  '66': ['191', '1669'],
  '81': ['110', '119', '118'],
  '82': ['112', '119', '1393'],
  '86': ['110', '119', '120', '122'],
  '90': ['112', '155'],
  '91': ['112', '100', '101', '102', '108', '1091', '1098', '14416'],
  '92': ['15', '1122'],
  '94': ['119', '1990'],
  '234': ['112', '199'],
  '254': ['999', '112', '1190', '1199'],
  '353': ['999', '112', '116123'],
  '852': ['999', '112'],
  '971': ['999', '998', '112'],
  '886': ['110', '119', '1925'],
  '972': ['100', '101', '102', '1201'],
}

describe('isEmergency()', () => {
  test('knows the services of forty countries: with their code, with a trunk zero, with blanks, and alone', () => {
    const missed: string[] = []
    for (const [code, numbers] of Object.entries(SERVICES)) {
      for (const number of numbers) {
        for (const written of [
          `+${code}${number}`,
          `+${code} ${number}`,
          `+${code}0${number}`,
          `+${code}-(${number})`,
          `00${code}${number}`,
          `011${code}${number}`,
        ])
          if (!isEmergency(written)) missed.push(written)
        if (number.length <= 5 && !isEmergency(number)) missed.push(number)
        if (number.length <= 3 && !isEmergency(`+${number}`)) missed.push(`+${number}`)
      }
    }
    expect(missed).toEqual([])
  })

  test('reads digits of other scripts as digits, where they are the same ones', () => {
    expect([isEmergency('+1９１１'), isEmergency('９１１'), isEmergency('+1\u00a0911')]).toEqual([true, true, true])
  })

  test('lets subscribers be called', () => {
    const subscribers = [
      '+14155550123',
      '+12125550112',
      '+442079460999',
      '+493012345678',
      '+4915112345678',
      '+33112345678',
      '+390612345',
      '+8613800138000',
      '+819012345678',
      '+61212345678',
      '+27101234567',
      '+911123456789',
      '+919999999999',
      '+353112345678',
      '+5511912345678',
      '+79991234567',
      '+6834000',
      '+29022345',
      '+85291234567',
      '+4411234567',
    ]
    expect(subscribers.filter(isEmergency)).toEqual([])
  })

  test('is false for text that is not a number', () => {
    expect([isEmergency(''), isEmergency('abc'), isEmergency('+')]).toEqual([false, false, false])
  })
})

test('isDear() knows premium rates, satellites and networks of no country', () => {
  const dear = [
    '+19005550100',
    '+19765550100',
    '+870773000000',
    '+881612345678',
    '+882161234567',
    '+97912345678',
    '+80812345678',
  ]
  const atHome = [
    '+449098790123',
    '+447012345678',
    '+448711234567',
    '+4490098790123',
    '+4990012345678',
    '+490900123456',
    '+33899123456',
    '+39899123456',
    '+34806123456',
    '+41900123456',
    '+43900123456',
    '+31900123456',
    '+61190012345',
    '+3531570123456',
    '+78091234567',
    '+819901234567',
  ]
  expect([...dear, ...atHome].filter((number) => !isPremiumRate(number))).toEqual([])
  const subscribers = [
    '+14155550123',
    '+442079460999',
    '+447911123456',
    '+4930123456',
    '+4917612345678',
    '+33612345678',
    '+390612345678',
    '+393331234567',
    '+34915550123',
    '+4366412345678',
    '+46901234567',
    '+8613800138000',
    '+886912345678',
    '+8801712345678',
    '+97312345678',
    '+353871234567',
    '+5511912345678',
    '+79161234567',
    '+385911234567',
    '+421905123456',
    '+6834000',
  ]
  expect(subscribers.filter(isPremiumRate)).toEqual([])
})
