/** A vendor that does what a test tells it to. */
import type { ImageJob, ImageVendor, MadeImage } from '../../core/mod.ts'

/** What happens to one job; given nothing, it makes `n` one-pixel images. */
export type Script = (job: ImageJob, at: { signal: AbortSignal; attempt: number }) => Promise<readonly MadeImage[]>

/** A valid PNG of one transparent pixel. */
export const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export type ScriptedVendor = ImageVendor & { readonly jobs: readonly ImageJob[] }

/** Records every job. Rejects at once when the signal aborts, whatever the script does. */
export function scriptedVendor(script: Script = async ({ n }) => Array.from({ length: n }, () => ({ url: PIXEL }))): ScriptedVendor {
  const jobs: ImageJob[] = []
  return {
    jobs,
    generate(job, { signal }) {
      jobs.push(job)
      const attempt = jobs.length
      return new Promise((resolve, reject) => {
        const abort = () => reject(signal.reason)
        if (signal.aborted) return abort()
        signal.addEventListener('abort', abort, { once: true })
        script(job, { signal, attempt }).then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
      })
    },
  }
}
