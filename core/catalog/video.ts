import type { Dollars } from '../money.ts'

/** What a video costs (spec 3, "Video pricing"). */
export type VideoBilling =
  /** US dollars per second, times 1.05. */
  | { readonly mode: 'per_second_with_margin'; readonly rate: Dollars }
  /** US dollars per second by resolution, without margin, and a flat amount for each generation. */
  | { readonly mode: 'per_second_by_tier'; readonly tiers: Readonly<Record<string, Dollars>>; readonly perGeneration: Dollars }
  /** US dollars for a million tokens; tokens follow from seconds and resolution. */
  | { readonly mode: 'per_token'; readonly rate: Dollars }

/** One video model for sale. */
export type VideoRow = {
  /** Public id, as listed in the contract. */
  readonly id: string
  readonly aliases: readonly string[]
  readonly name: string
  /** The maker, as `owned_by` and as the source of a rate limit. */
  readonly maker: string
  /** Which of the operator's vendors serves it, and what that vendor calls it. */
  readonly vendor: string
  readonly upstream: string
  readonly family: 'c' | 'e' | 'f'
  /** Seconds: a range, or the only lengths there are. */
  readonly seconds: { readonly min: number; readonly max: number; readonly only?: readonly number[]; readonly usual: number }
  readonly resolutions: readonly string[]
  readonly usualResolution: string
  readonly ratios: readonly string[]
  /** Whether a clip may have sound, a last frame may be given, references and enrolled characters may be used. */
  readonly audio: boolean
  readonly lastFrame: boolean
  readonly references: boolean
  readonly assets: boolean
  readonly billing: VideoBilling
  /** Sold, but not listed. */
  readonly hidden?: boolean
  /** The row that does the work instead, where an operator has redirected this one. */
  readonly servedBy?: string
}

export const videoRows: readonly VideoRow[] = []
