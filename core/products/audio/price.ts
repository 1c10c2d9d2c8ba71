/** Prices of speech, sound effects and music (contract 14.1). */
import { charactersIn } from '../../lib/text.ts'
import { dollars, type Usdc, roundUp, plus, times } from '../../x402/money.ts'
import type { AudioBilling } from '../../ports/vendors/audio.ts'
import { type Markup, mediaPrice, mediaRate, isBelow, FLOOR, STANDARD_MARKUP } from '../../x402/pricing.ts'

const WIDE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu

/** Letters spoken per second. A character of a syllabic or logographic script counts as three. */
const SPOKEN_PER_SECOND = 15

/** Most seconds billed, whatever the length of the text. */
export const MAX_SPEECH_SECONDS = 120

/** Estimated duration of a spoken text: 1 to 120 seconds (contract 14.3). */
export function spokenSeconds(text: string): number {
  const weighted = charactersIn(text) + 2 * (text.match(WIDE)?.length ?? 0)
  return Math.min(MAX_SPEECH_SECONDS, Math.max(1, Math.ceil(weighted / SPOKEN_PER_SECOND)))
}

const THOUSANDTH = dollars('0.001')

/**
 * Speech by the character: `characters / 1000 * rate * 1.05`, at least 0.001, + 0.001; by the second: `seconds * rate +
 * 0.001`, without margin. Sound effects and music cost their rate once, with margin and fee (contract 14.1).
 */
export function audioPrice(
  { mode, rate }: AudioBilling,
  {
    characters = 0,
    seconds = 0,
    markup = STANDARD_MARKUP,
  }: { readonly characters?: number; readonly seconds?: number; readonly markup?: Markup | undefined } = {},
): Usdc {
  if (mode === 'per_second') return roundUp(plus(times(rate, BigInt(seconds)), markup.fee))
  if (mode !== 'per_character') return mediaPrice(rate, 1, markup)
  const text = mediaRate(times(times(rate, BigInt(characters)), THOUSANDTH), markup)
  return roundUp(plus(isBelow(text, FLOOR) ? FLOOR : text, markup.fee))
}
