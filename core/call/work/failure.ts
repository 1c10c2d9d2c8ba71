/** How failed work reads: as an error, in the ledger and in the reply. */
import type { Paid, Sold } from '../../endpoint/mod.ts'
import { errorReply } from '../../http/error_formats.ts'
import { ApiError } from '../../http/errors.ts'
import type { Reply } from '../../http/reply.ts'
import type { Call } from '../../ports/mod.ts'

/** The error of failed work as its caller reads it. */
export function asApiError(endpoint: Paid, error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (endpoint.errors?.includes('UPSTREAM_FAILED'))
    return new ApiError('UPSTREAM_FAILED', {
      message: 'The service behind this failed. Payment was NOT charged; the same request may be sent again.',
    })
  return new ApiError('WORK_FAILED', {
    error: endpoint.failure,
    details: 'The model did not deliver a result. Nothing was charged.',
  })
}

/** The failure as the ledger stores it and a poll shows it. */
export function failureText({ message, parts }: ApiError): string {
  return typeof parts.details === 'string' ? `${message}: ${parts.details}` : message
}

/** An inline failure that is not the caller's fault names its job (contract 5.48). */
export function failureReply({ errorFormat }: Sold, call: Call, apiError: ApiError): Reply {
  if (apiError.code !== 'WORK_FAILED') return errorReply(apiError, errorFormat)
  return errorReply(
    new ApiError(apiError.code, { ...apiError.parts, fields: { ...apiError.parts.fields, job_id: call.id } }),
    errorFormat,
  )
}
