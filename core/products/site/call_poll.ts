/** Collecting any call, by those who lost its reply: products without a poll path of their own are polled here. */
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
