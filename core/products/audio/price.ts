/** What speech, sounds and music cost (contract 14.1). */
import { charactersIn } from '../../lib/text.ts'
import { dollars, type Usdc, roundUp, plus, times } from '../../x402/money.ts'
import type { AudioBilling } from '../../ports/vendors/audio.ts'
import { FEE, mediaPrice, withMargin, isBelow, FLOOR } from '../../x402/pricing.ts'

const WIDE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu

/** Letters that are spoken in a second; a syllable of a script that writes them whole takes the time of three. */
const SPOKEN_PER_SECOND = 15

/** What is billed at most, however long the text. */
export const MAX_SPEECH_SECONDS = 120

/** How long a text is thought to take when it is spoken: from 1 to 120 seconds (contract 14.3). */
export function spokenSeconds(text: string): number {
  const beats = charactersIn(text) + 2 * (text.match(WIDE)?.length ?? 0)
  return Math.min(MAX_SPEECH_SECONDS, Math.max(1, Math.ceil(beats / SPOKEN_PER_SECOND)))
}

const THOUSANDTH = dollars('0.001')

/**
 * Speech by the character: `characters / 1000 * rate * 1.05`, at least 0.001, + 0.001; by the second: `seconds * rate +
 * 0.001`, without margin. Whatever else makes a sound costs its rate once, with margin and fee (contract 14.1).
 */
export function audioPrice(
  { mode, rate }: AudioBilling,
  { characters = 0, seconds = 0 }: { readonly characters?: number; readonly seconds?: number } = {},
): Usdc {
  if (mode === 'per_second') return roundUp(plus(times(rate, BigInt(seconds)), FEE))
  if (mode !== 'per_character') return mediaPrice(rate, 1)
  const text = withMargin(times(times(rate, BigInt(characters)), THOUSANDTH))
  return roundUp(plus(isBelow(text, FLOOR) ? FLOOR : text, FEE))
}
