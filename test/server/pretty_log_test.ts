/** The log at a terminal. */
import { expect, test } from 'bun:test'
import { prettyLines } from '../../server/pretty_log.ts'

const TIME = new Date(2026, 10, 20, 9, 8, 7).getTime()
const line = (fields: object) => `${JSON.stringify({ level: 30, time: TIME, ...fields })}\n`

test('a line has its time, level, message and fields; a request is short', () => {
  const text = line({ gateway: 'base', msg: 'open' }) + line({ level: 50, alert: true, msg: 'no gas' })
  expect(prettyLines(text, { isColored: false })).toBe(
    '09:08:07 info  open gateway="base"\n09:08:07 ERROR no gas alert=true\n',
  )
  const request = { id: 'x', method: 'GET', path: '/livez', status: 200, ms: 0.4, ip: '127.0.0.1', msg: 'request' }
  expect(prettyLines(line(request), { isColored: true })).toBe('09:08:07 info  200 GET /livez 0.4 ms 127.0.0.1\n')
})

test('control characters of a caller do not reach the terminal', () => {
  const request = { id: 'x', method: 'GET', path: '/\u001b[2J', status: 404, ms: 1, ip: '::1', msg: 'request' }
  expect(prettyLines(line(request), { isColored: false })).toContain('404 GET /?[2J 1 ms')
})
