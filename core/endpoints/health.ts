/** Whether this gateway is up. */
import { Type } from '@sinclair/typebox'
import { free, json } from '../endpoint.ts'

const up = free({
  name: 'health',
  path: '/api/health',
  summary: 'Whether the gateway is up',
  tag: 'health',
  output: Type.Object({
    status: Type.Literal('ok'),
    ready: Type.Boolean({ description: 'Whether it can sell: its chain has been checked and can be settled on.' }),
    gateway: Type.String(),
    network: Type.String(),
    version: Type.String(),
    uptime_seconds: Type.Integer(),
    timestamp: Type.String(),
  }),
  answer(_request, { gateway, clock }) {
    const now = clock.now()
    return json(
      200,
      {
        status: 'ok',
        ready: gateway.isReady(),
        gateway: gateway.name,
        network: gateway.label,
        version: gateway.version,
        uptime_seconds: Math.floor((now - gateway.startedAt) / 1000),
        timestamp: new Date(now).toISOString(),
      },
      { 'cache-control': 'no-store' },
    )
  },
})

export const health = [up]
