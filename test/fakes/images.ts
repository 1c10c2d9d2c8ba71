/** A scripted image vendor for tests. */
import type { ImageEdit, ImageJob, ImageVendor, MadeImage } from '../../core/mod.ts'

/** The outcome of one job; by default `n` one-pixel images. */
export type Script = (
  job: ImageJob | ImageEdit,
  at: { signal: AbortSignal; attempt: number },
) => Promise<readonly MadeImage[]>

/** A valid PNG of one transparent pixel. */
export const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export type ScriptedVendor = Required<ImageVendor> & { readonly jobs: readonly (ImageJob | ImageEdit)[] }

/**
 * Records every job. Rejects at once when the signal aborts, whatever the script does.
 *
 * @example
 * const images = scriptedVendor()
 */
export function scriptedVendor(
  script: Script = async ({ n }) => Array.from({ length: n }, () => ({ url: PIXEL })),
): ScriptedVendor {
  const jobs: (ImageJob | ImageEdit)[] = []
  return { jobs, isFull: () => false, generate: perform, edit: perform }

  function perform(job: ImageJob | ImageEdit, { signal }: { signal: AbortSignal }): Promise<readonly MadeImage[]> {
    jobs.push(job)
    const attempt = jobs.length
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason)
      if (signal.aborted) return abort()
      signal.addEventListener('abort', abort, { once: true })
      script(job, { signal, attempt })
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', abort))
    })
  }
}
