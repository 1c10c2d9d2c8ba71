/** An attack, and its row of the table. */
import type { Target, TargetOptions } from './target.ts'

export type Outcome = {
  readonly tried: number
  /** How many of the tries were refused, or cost the operator no more than its settings say. */
  readonly refused: number
  /** Meaning of the figures behind it. */
  readonly note: string
}

export type Attack = {
  readonly family: string
  readonly name: string
  /** Settings of the gateway that is attacked, where the usual ones do not allow the attack. */
  readonly at?: TargetOptions
  run(target: Target): Promise<Outcome>
}

export const usdc = (units: bigint): string => (Number(units) / 1e6).toFixed(6)
