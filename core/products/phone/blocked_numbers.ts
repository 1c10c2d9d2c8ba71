/** Phone numbers that are never called: emergency services and crisis lines in any notation, and premium rates. */

/** Two-digit calling codes; all others have three digits, except 1 and 7 (ITU-T E.164, list of assigned codes). */
const TWO_DIGIT_CODES = new Set(
  '20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82 84 86 90 91 92 93 94 95 98'.split(
    ' ',
  ),
)

/** Emergency numbers of five or more digits, by calling code, without trunk zeros. Shorter ones need no list. */
const LONG_SERVICE_NUMBERS: Readonly<Record<string, readonly string[]>> = {
  '1': ['8002738255'],
  '27': ['10111', '10177'],
  '44': ['18000'],
  '49': ['8001110111', '8001110222'],
  '61': ['131114', '132500'],
  '91': ['14416'],
}

/** The four islands with four-digit subscriber numbers: Ascension, Saint Helena, Niue and Tokelau. */
const FOUR_DIGITS = new Set(['247', '290', '683', '690'])

/** Service codes of North America; further digits reach the same service. */
const NANP = /^(?:911|988|933|211|311|411|511|611|711|811)/

/** Harmonised services of social value in Europe: 116 and three digits, including missing children and crisis lines. */
const HARMONISED = /^116\d{3}$/

/** Satellite, international networks and premium rates. */
const PREMIUM = /^(?:1900|1976|808|870|878|881|882|883|888|979|991)/

/**
 * Premium, shared-cost and personal numbers within a country, by calling code, from the national numbering plans. The
 * holder of such a number may be paid by its callers. Ranges that also contain ordinary subscribers are left out.
 */
const PREMIUM_BY_COUNTRY: Readonly<Record<string, RegExp>> = {
  '7': /^80[39]/,
  '27': /^86/,
  '30': /^90/,
  '31': /^(?:90|8[47])/,
  '32': /^90/,
  '33': /^8[129]/,
  '34': /^(?:80[3-7]|90[57])/,
  '36': /^9[01]/,
  '39': /^(?:1|70|8[49])/,
  '40': /^90/,
  '41': /^(?:90|84)/,
  '43': /^(?:9|8[12])/,
  '44': /^(?:9|70|8[47])/,
  '45': /^90/,
  '46': /^9(?:00|39|44)/,
  '47': /^82/,
  '48': /^70/,
  '49': /^(?:118|13[78]|180|190|900)/,
  '52': /^900/,
  '55': /^[359]00/,
  '61': /^19/,
  '62': /^809/,
  '64': /^900/,
  '65': /^1900/,
  '66': /^1900/,
  '81': /^(?:990|570)/,
  '82': /^60/,
  '84': /^1900/,
  '90': /^900/,
  '351': /^(?:6|70[78]|76)/,
  '352': /^90/,
  '353': /^15/,
  '354': /^90/,
  '356': /^50/,
  '357': /^90/,
  '358': /^[67]00/,
  '359': /^90/,
  '370': /^90/,
  '371': /^90/,
  '372': /^900/,
  '380': /^900/,
  '385': /^6/,
  '386': /^90/,
  '420': /^90/,
  '421': /^900/,
  '971': /^900/,
  '972': /^19/,
}

/** The dialed digits, without separators and the international prefix. */
function dialed(text: string): string {
  const digits = text.normalize('NFKC').replaceAll(/[^\d]/g, '')
  return text.trimStart().startsWith('+') ? digits : digits.replace(/^(?:00|011)(?=\d{3})/, '')
}

function split(digits: string): { code: string; rest: string } {
  const long = TWO_DIGIT_CODES.has(digits.slice(0, 2)) ? 2 : 3
  const length = /^[17]/.test(digits) ? 1 : long
  return { code: digits.slice(0, length), rest: digits.slice(length) }
}

/**
 * Whether a number reaches an emergency service or a crisis line, with or without a country code. Errs on the side of
 * not calling.
 */
export function isEmergency(text: string): boolean {
  const digits = dialed(text)
  const { code, rest } = split(digits)
  const national = rest.replace(/^0+(?=\d)/, '')
  if (digits.length < 2) return false
  // Numbers this short are services, with or without a country code: 911, 112, 999, 000, 110, 119, 1669, 1201 and the
  // like.
  if (digits.length <= 5 || national.length <= (FOUR_DIGITS.has(code) ? 3 : 4)) return true
  if (code === '1' && NANP.test(national)) return true
  return HARMONISED.test(national) || (LONG_SERVICE_NUMBERS[code] ?? []).includes(national)
}

/** Whether a call costs more than the quote covers. */
export function isPremiumRate(text: string): boolean {
  const digits = dialed(text)
  const { code, rest } = split(digits)
  return PREMIUM.test(digits) || PREMIUM_BY_COUNTRY[code]?.test(rest.replace(/^0+/, '')) === true
}
