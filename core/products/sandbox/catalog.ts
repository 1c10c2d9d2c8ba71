import type { Gpu } from '../../ports/vendors/sandbox.ts'

/** Sandbox rates in US dollars before the fee: flat for short ones, hourly for longer ones (contract 16.2). */
export type SandboxRate = { readonly flat: string; readonly hourly: string }

/** Longest duration at the flat rate. */
export const SHORT_SECONDS = 300

/** Without a GPU. */
export const plainRate: SandboxRate = { flat: '0.01', hourly: '0.10' }

export const gpuRates = {
  T4: { flat: '0.05', hourly: '1.5' },
  L4: { flat: '0.08', hourly: '2' },
  A10G: { flat: '0.10', hourly: '2.5' },
  A100: { flat: '0.20', hourly: '4' },
  H100: { flat: '0.40', hourly: '8' },
} as const satisfies Record<Gpu, SandboxRate>
