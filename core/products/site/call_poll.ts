/** Polls any call, for callers that lost its reply and for products without their own poll path. */
import { polled } from '../../endpoint/mod.ts'
import { READS } from '../../endpoint/replies.ts'

const anyCall = polled({
  name: 'calls.poll',
  path: '/api/v1/calls/{id}',
  summary: 'Collect any call by its job id',
  description: `${READS} A call is charged once, however often it is collected.`,
  tag: 'calls',
  of: 'all',
})

export const calls = [anyCall]
